"""Functions of functions: transforms, checkpoints, conditions. Each does what eager does, or breaks the graph."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vmap
from torch.utils.checkpoint import checkpoint

import graphwright
from graphwright.testing import CompileCounter, assert_captures

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),  # torch's own, at the first jvp
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),  # what eager compiles torch.cond with
]

BACKENDS = [None, "aot_eager"]
both = pytest.mark.parametrize("backend", BACKENDS)


def rand(*shape, **options):
    torch.manual_seed(0)
    return torch.rand(*shape, **options)


WEIGHT = rand(3, requires_grad=True)
TABLE = {"w": rand(3), "b": rand(3)}


# ------------------------------------------------------------------ transforms that are captured whole


def vmap_with_closure(x):
    scale = x.mean()
    return vmap(lambda row: (row * WEIGHT).sum() * scale)(x) + 1


def vmap_dims(x):
    return vmap(lambda a, b: (a * b, a - b), in_dims=(0, 1), out_dims=(1, 0))(x, x.t())


def vmap_nested(x):
    return vmap(vmap(lambda a, b: a * b.sum(), in_dims=(0, None)), in_dims=(None, 0))(x, x)


def vmap_unbatched_keywords(x):
    return vmap(lambda row, scale, shift=1.0: row * scale + shift, in_dims=(0, None))(x, x[0], shift=2.0)


def vmap_chunks(x):
    return vmap(lambda row: row.sin() * WEIGHT, chunk_size=2)(x)


def vmap_pytrees(x):
    return vmap(lambda d: {"s": d["a"] + d["b"][0], "t": [d["a"]]}, in_dims=({"a": 0, "b": [None]},))(
        {"a": x, "b": [x[0]]}
    )


def vmap_reads_shape(x):
    def body(row):
        return row.view(1, row.shape[0]).sum(0) if row.dim() == 1 and row.shape == (3,) else row

    return vmap(body)(x)


def vmap_of_a_module_function(x):
    return vmap(F.softplus)(x), vmap(torch.sin)(x)


def vmap_random(x):
    return vmap(lambda row: row + torch.rand(3), randomness="different")(x)


def vmap_dropout(x):
    return vmap(lambda row: F.dropout(row, 0.5, True), randomness="same")(x)


def vmap_makes_tensors(x):
    return vmap(lambda row: row.sum() + torch.arange(3.0) + torch.ones(()))(x)


def vmap_local_writes(x):
    def body(row):
        own = row.clone()
        own.mul_(2)
        own[0] = 1.0
        return own

    return vmap(body)(x)


def grad_simple(x):
    return grad(lambda t: (t.sin() * WEIGHT).sum())(x[0])


def grad_of_closure_tensor_is_zero_outside(x):
    def outer(w):
        return (grad(lambda t: (t * w).sum())(x[0]) * w).sum()

    return grad(outer)(x[1])


def grad_argnums_aux(x):
    def loss(a, b):
        return (a * b).sum(), (a + b, {"part": [a - b]})

    (da, db), (extra, more) = grad(loss, argnums=(0, 1), has_aux=True)(x[0], x[1])
    return da, db, extra, more


def grad_value_of_pytree(x):
    def loss(table, row):
        return ((table["w"] * row + table["b"]) ** 2).sum()

    return vmap(grad_and_value(loss), in_dims=(None, 0))(TABLE, x)


def grad_in_no_grad(x):
    with torch.no_grad():
        return grad(lambda t: (t * t).sum())(x[0])


def grad_with_no_grad_inside(x):
    def loss(t):
        with torch.no_grad():
            fixed = t * 2
        return (t * fixed).sum()

    return grad(loss)(x[0])


def grad_asks_requires_grad(x):
    return grad(lambda t: (t * 2 if t.requires_grad else t * 3).sum())(x[0].detach())


def jacobians(x):
    def f(t):
        return t**2 * t.sum()

    return jacrev(f)(x[0]), jacfwd(f)(x[0]), jacrev(f, chunk_size=2)(x[0]), hessian(lambda t: (t**3).sum())(x[0])


def jacobian_of_two(x):
    return jacrev(lambda a, b: (a * b, a.sin()), argnums=(0, 1))(x[0], x[1])


def forward_mode(x):
    return jvp(lambda a, b: a * b + WEIGHT, (x[0], x[1]), (x[2], x[3]))


def forward_mode_aux(x):
    return jvp(lambda a: (a.sin(), a.cos()), (x[0],), (x[1],), has_aux=True)


def third_derivative(x):
    return vmap(grad(grad(grad(lambda t: t**4))))(x[0])


def transform_kept_for_later(x):
    gradient = grad(lambda t: (t * WEIGHT).sum())
    return gradient(x[0]) + gradient(x[1])


def pulled_back(x):
    value, pull = torch.func.vjp(lambda a, b: a * b * WEIGHT, x[0], x[1])
    return value, pull(x[2]), pull(torch.ones(3))


def pulled_back_with_aux(x):
    _, pull, extra = torch.func.vjp(lambda d: ({"s": d["a"].sin()}, d["a"] * 2), {"a": x[0]}, has_aux=True)
    return pull({"s": x[1]}), extra


def pulled_back_under_vmap(x):
    _, pull = torch.func.vjp(lambda t: t**2 * t.sum(), x[0])
    return vmap(pull)(torch.eye(3))


BATCHED = vmap(lambda row, w: row * w, in_dims=(0, None))
GRADIENT = grad(lambda t: (t * WEIGHT).sum())
CURVATURE = hessian(lambda t: (t**3).sum())


def made_outside(x):
    return BATCHED(x, x[0]), GRADIENT(x[0]), CURVATURE(x[1]), vmap(GRADIENT)(x)


WHOLE = [
    made_outside,
    pulled_back,
    pulled_back_with_aux,
    pulled_back_under_vmap,
    vmap_with_closure,
    vmap_dims,
    vmap_nested,
    vmap_unbatched_keywords,
    vmap_chunks,
    vmap_pytrees,
    vmap_reads_shape,
    vmap_of_a_module_function,
    vmap_random,
    vmap_dropout,
    vmap_makes_tensors,
    vmap_local_writes,
    grad_simple,
    grad_of_closure_tensor_is_zero_outside,
    grad_argnums_aux,
    grad_value_of_pytree,
    grad_in_no_grad,
    grad_with_no_grad_inside,
    grad_asks_requires_grad,
    jacobians,
    jacobian_of_two,
    forward_mode,
    forward_mode_aux,
    third_derivative,
    transform_kept_for_later,
]


@both
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("fn", WHOLE, ids=lambda fn: fn.__name__)
def test_transforms_are_captured_whole(fn, requires_grad, backend):
    assert_captures(fn, rand(4, 3).requires_grad_(requires_grad), backend=backend, rtol=1e-6, atol=1e-6)


def test_the_body_is_a_graph_of_its_own():
    counter = assert_captures(vmap_with_closure, rand(4, 3), ops=3)
    (body,) = [m for name, m in counter.graphs[0].named_modules() if name == "body_0"]
    assert [n.name for n in body.graph.nodes if n.op == "placeholder"] == ["arg_0", "g_weight_", "mean"]


@both
def test_a_model_with_other_parameters(backend):
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    params = {k: v.detach() for k, v in model.named_parameters()}

    def loss(params, x, y):
        return F.cross_entropy(functional_call(model, params, (x[None],)), y[None])

    def per_sample(x, y):
        return vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)

    assert_captures(per_sample, rand(2, 8), torch.tensor([0, 2]), backend=backend, rtol=1e-6, atol=1e-6)


@both
def test_an_ensemble(backend):
    models = [nn.Linear(3, 2) for _ in range(3)]
    params, buffers = torch.func.stack_module_state(models)
    base = models[0]

    def predict(x):
        return vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(params, buffers, x)

    assert_captures(predict, rand(4, 3), backend=backend, rtol=1e-6, atol=1e-6)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3, bias=False)
        self.b = nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x, scale=1.0):
        return self.b(self.a(x)) * scale


@pytest.mark.parametrize("tie_weights", [False, True])
def test_tied_parameters_change_together(tie_weights):
    model, other = Tied(), rand(3, 3)

    def fn(x):
        result = functional_call(model, {"a.weight": other}, x, {"scale": 2.0}, tie_weights=tie_weights)
        return result, model(x)

    assert_captures(fn, rand(4, 3))


def test_parameters_that_are_tied_later_are_noticed():
    class Loose(Tied):
        def __init__(self):
            super().__init__()
            self.b.weight = nn.Parameter(rand(3, 3) * 2)

    model, other = Loose(), rand(3, 3)
    compiled = graphwright.compile(lambda x: functional_call(model, {"a.weight": other}, (x,)), backend="eager")
    x = rand(4, 3)
    with torch.no_grad():
        assert torch.equal(compiled(x), x @ other.t() @ model.b.weight.t())
        model.b.weight = model.a.weight
        assert torch.equal(compiled(x), x @ other.t() @ other.t())


def test_buffers_that_are_written_break_the_graph():
    model = nn.BatchNorm1d(3)
    state = {k: v.clone() for k, v in (*model.named_parameters(), *model.named_buffers())}

    def fn(x):
        return functional_call(model, state, (x,))

    compiled = graphwright.compile(fn, backend="eager")
    x = rand(4, 3)
    expected = fn(x)
    mean, batches = state["running_mean"].clone(), state["num_batches_tracked"].clone()
    state["running_mean"].zero_()
    state["running_var"].fill_(1)
    assert torch.equal(compiled(x), expected)
    assert torch.equal(state["running_mean"], mean)
    assert torch.equal(state["num_batches_tracked"], batches + 1)
    assert torch.equal(model.running_mean, torch.zeros(3))


# ------------------------------------------------------------------ what breaks the graph, and is right all the same


LOG: list[object] = []


def appends(x):
    seen = []

    def body(row):
        seen.append(row.shape)
        return row * 2

    return vmap(body)(x), seen


def appends_a_tensor(x):
    seen = []

    def loss(t):
        seen.append(1)
        return (t * t).sum()

    return grad(loss)(x[0]), seen


def rebinds(x):
    count = 0

    def body(row):
        nonlocal count
        count += 1
        return row * count

    return vmap(body)(x), count


def advances_an_iterator(x):
    numbers = iter([2.0, 3.0])
    first = vmap(lambda row: row * next(numbers))(x)
    return first, next(numbers)


def writes_to_an_argument(x):
    y = x * 2
    result = vmap(lambda row: row.add_(1))(y)
    return result, y


def writes_to_a_closure_tensor(x):
    total = torch.zeros(3)
    result = grad(lambda t: (t * total.add_(1)).sum())(x[0])
    return result, total


def prints(x):
    def body(row):
        print("in the body")
        return row + 1

    return vmap(body)(x)


def asks_for_a_value(x):
    def loss(t):
        return (t * (2 if t.sum() > 0 else 3)).sum()

    return grad(loss)(x[0])


BREAKING = [
    appends,
    appends_a_tensor,
    rebinds,
    advances_an_iterator,
    writes_to_an_argument,
    writes_to_a_closure_tensor,
    prints,
    asks_for_a_value,
]


@both
@pytest.mark.parametrize("fn", BREAKING, ids=lambda fn: fn.__name__)
def test_a_body_that_does_more_than_compute_breaks_the_graph(fn, backend):
    assert_captures(fn, rand(4, 3), graphs=None, breaks=None, backend=backend)
    with pytest.raises(graphwright.exc.GraphwrightError):
        graphwright.compile(fn, backend="eager", fullgraph=True)(rand(4, 3))


def leaves_autocast_on(x):
    def body(row):
        torch.set_grad_enabled(False)
        return row * 2

    try:
        return vmap(body)(x), torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_a_body_that_changes_grad_mode():
    assert_captures(leaves_autocast_on, rand(4, 3), graphs=None, breaks=None)


def raises_inside(x):
    def body(row):
        raise ValueError("no")

    try:
        vmap(body)(x * 2)
    except ValueError as error:
        return str(error), x + 1


def raises_wrong_shape(x):
    return grad(lambda t: t * 2)(x[0])


def raises_in_place(x):
    own = torch.zeros(3)
    return vmap(lambda row: own.add_(row))(x)


def raises_random(x):
    return vmap(lambda row: row + torch.rand(3))(x)


def raises_bad_option(x):
    vmap(lambda row: row, randomness="sometimes")
    return x


def raises_wrong_aux(x):
    return grad(lambda t: (t.sum(), "text"), has_aux=True)(x[0])


def raises_not_a_tensor(x):
    return vmap(lambda row: 3)(x)


@pytest.mark.parametrize(
    "fn",
    [
        raises_inside,
        raises_wrong_shape,
        raises_in_place,
        raises_random,
        raises_bad_option,
        raises_not_a_tensor,
        raises_wrong_aux,
    ],
    ids=lambda fn: fn.__name__,
)
def test_exceptions_are_those_of_eager(fn):
    assert_captures(fn, rand(4, 3), graphs=None, breaks=None)


def test_a_transform_may_leave_the_function():
    def fn(x):
        factor = 2.0
        return grad(lambda t: (t * factor).sum(), has_aux=False), x + 1

    compiled = graphwright.compile(fn, backend="eager")
    for _ in range(2):
        gradient, y = compiled(rand(3))
        assert torch.equal(gradient(rand(3)), torch.full((3,), 2.0))
        assert torch.equal(y, rand(3) + 1)


def test_a_pullback_that_leaves_the_function():
    def fn(x):
        return torch.func.vjp(torch.sin, x * 2)

    compiled = graphwright.compile(fn, backend="eager")
    for _ in range(2):
        value, pull = compiled(rand(3))
        assert torch.equal(value, (rand(3) * 2).sin())
        assert torch.equal(pull(torch.ones(3))[0], (rand(3) * 2).cos())


def test_guards_hold_inside_bodies():
    counter = CompileCounter()
    scale = {"value": 2.0}
    compiled = graphwright.compile(lambda x: vmap(lambda row: row * scale["value"])(x), backend=counter)
    x = rand(4, 3)
    assert torch.equal(compiled(x), x * 2)
    scale["value"] = 3.0
    assert torch.equal(compiled(x), x * 3)
    assert counter.frame_count == 2


def test_a_capture_keeps_nothing_of_the_body_alive():
    class Big:
        factor = 2.0

    def make():
        big = Big()
        compiled = graphwright.compile(lambda x: vmap(lambda row: row * big.factor)(x), backend="eager")
        compiled(rand(4, 3))
        return weakref.ref(big), compiled

    reference, compiled = make()
    del compiled
    gc.collect()
    assert reference() is None


# ------------------------------------------------------------------ checkpoints


class Checkpointed(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 8)
        self.options = options

    def block(self, x, scale=1.0):
        return F.dropout(self.b(torch.sin(self.a(x))), 0.5) * scale

    def forward(self, x):
        x = checkpoint(self.block, x, use_reentrant=False, **self.options)
        return checkpoint(lambda t: (self.block(t).cos(), x), x, use_reentrant=False)[0]


@both
@pytest.mark.parametrize("options", [{}, {"scale": 2.0}, {"determinism_check": "none"}, {"early_stop": False}], ids=str)
def test_checkpoints(options, backend):
    assert_captures(Checkpointed(**options), rand(2, 8, requires_grad=True), backend=backend)


@dataclasses.dataclass
class Parts:
    first: torch.Tensor
    more: dict


def checkpoint_gives_objects(x):
    y = x * 2
    kept = [y]

    def body(t, given):
        made = t.sin()
        made.tag = "made inside"
        return Parts(made, {"same": made, "outside": y, "given": given, "number": 3, "none": None})

    parts = checkpoint(body, y, kept, use_reentrant=False)
    assert parts.more["same"] is parts.first
    assert parts.more["given"] is kept
    return parts, kept, parts.first.tag


@both
def test_a_checkpoint_gives_what_its_function_gives(backend):
    assert_captures(checkpoint_gives_objects, rand(3, requires_grad=True), backend=backend)


@both
def test_checkpoints_inside_checkpoints(backend):
    def fn(x):
        def inner(t):
            return checkpoint(torch.sin, t * WEIGHT, use_reentrant=False) + t

        return checkpoint(inner, x, use_reentrant=False) * 2

    assert_captures(fn, rand(4, 3, requires_grad=True), backend=backend)


def test_a_checkpoint_runs_its_function_again():
    model = Checkpointed()
    ran = []
    compiled = graphwright.compile(model, backend=lambda gm, _: counting(gm, ran))
    compiled(rand(2, 8, requires_grad=True)).sum().backward()
    assert ran == ["body_0", "body_1", "body_1", "body_0"]


def counting(gm, ran):
    for name, body in gm.named_children():
        body.register_forward_pre_hook(lambda module, args, name=name: ran.append(name))
    return gm.forward


def test_checkpoints_of_other_kinds_break_the_graph():
    def reentrant(x):
        return checkpoint(torch.sin, x * 2, use_reentrant=True) + 1

    assert_captures(reentrant, rand(3, requires_grad=True), graphs=2, breaks=["GW0020"])


def test_a_checkpointed_function_that_counts_its_runs():
    runs = []

    def body(x):
        runs.append(1)
        return x.sin()

    def fn(x):
        return checkpoint(body, x * 2, use_reentrant=False) + 1

    compiled = graphwright.compile(fn, backend="eager")
    for n in range(1, 3):
        compiled(rand(3, requires_grad=True)).sum().backward()
        assert len(runs) == 2 * n


def test_a_checkpointed_batch_norm_is_as_in_eager():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x):
            return checkpoint(self.norm, x * 2, use_reentrant=False)

    assert_captures(Net(), rand(4, 3, requires_grad=True), graphs=None, breaks=None)


# ------------------------------------------------------------------ conditions


def conditional(x):
    y = x * 2
    z = torch.cond(x.sum() > 0, lambda t: t.sin() + y, lambda t: t.cos() * WEIGHT, (x,))
    return z + 1


def conditional_pytree(x):
    made = torch.cond(x.sum() > 0, lambda t: {"a": t + 1, "b": (t * 2,)}, lambda t: {"a": t - 1, "b": (t * 3,)}, (x,))
    return made["a"] * made["b"][0]


def conditional_known(x):
    return torch.cond(x.shape[0] == 3, lambda t: t.sin(), lambda t: t.cos(), (x,))


@both
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("fn", [conditional, conditional_pytree, conditional_known], ids=lambda fn: fn.__name__)
def test_conditions(fn, sign, requires_grad, backend):
    x = (sign * rand(3)).requires_grad_(requires_grad)
    assert_captures(fn, x, backend=backend, rtol=1e-6, atol=1e-6)


def test_one_graph_takes_both_branches():
    counter = CompileCounter()
    compiled = graphwright.compile(conditional_pytree, backend=counter)
    for x in (rand(3), -rand(3)):
        assert torch.equal(compiled(x), conditional_pytree(x))
    assert counter.frame_count == 1


def test_branches_that_change_something_break_the_graph():
    def fn(x):
        seen = []
        result = torch.cond(x.sum() > 0, lambda t: (seen.append(1), t.sin())[1], lambda t: t.cos(), (x,))
        return result, seen

    with pytest.raises(graphwright.exc.Unsupported, match="GW0020"):
        graphwright.compile(fn, backend="eager", fullgraph=True)(rand(3))


# ------------------------------------------------------------------ subclasses with __torch_function__


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        return out * 1 if func is torch.Tensor.add else out

    def doubled(self):
        return self * 2

    @property
    def height(self):
        return self.shape[0]


class Plain(torch.Tensor):
    pass


class Counting(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ("sin", "relu"):
            return "refused " + name
        return super().__torch_function__(func, types, args, kwargs)


def operators(x):
    y = x.as_subclass(Logged)
    z = (y + 1).sin()
    return z.as_subclass(torch.Tensor), type(z).__name__, isinstance(z, Logged), type(1 + y) is type(x - y)


def methods_and_attributes(x):
    y = x.as_subclass(Logged)
    return y.doubled().as_subclass(torch.Tensor), y.height, y.shape, y.dtype, y.T.as_subclass(torch.Tensor), y.dim()


def functions(x):
    y = x.as_subclass(Logged)
    z = F.relu(torch.stack([y, y]))
    values, places = z.max(dim=0)
    return type(values).__name__, values.as_subclass(torch.Tensor), places.as_subclass(torch.Tensor)


def in_place(x):
    y = (x * 2).as_subclass(Plain)
    same = y.add_(1)
    y += 1
    y[0] = 0.0
    return same is y, y.as_subclass(torch.Tensor)


def writes_through(x):
    base = x * 2
    base.as_subclass(Plain).mul_(3)
    return base


def own_answers(x):
    y = x.as_subclass(Counting)
    return y.sin(), F.relu(y), torch.sin(y), (y * 2).as_subclass(torch.Tensor)


def sizes_and_loops(x):
    y = x.as_subclass(Plain)
    return len(y), [type(row).__name__ for row in y], y.size(0), y[0].as_subclass(torch.Tensor)


def returned(x):
    return (x.as_subclass(Plain) + 1), x + 1


@both
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(
    "fn",
    [
        operators,
        methods_and_attributes,
        functions,
        in_place,
        writes_through,
        own_answers,
        sizes_and_loops,
        returned,
    ],
    ids=lambda fn: fn.__name__,
)
def test_subclasses_made_inside_are_captured_whole(fn, requires_grad, backend):
    x = rand(4, 3).requires_grad_(requires_grad)
    assert_captures(fn, x, backend=backend)


def test_a_subclass_that_asks_for_values_breaks_the_graph():
    def fn(x):
        y = x.as_subclass(Plain)
        return (y * 2 if bool(y.sum() > 0) else y * 3).as_subclass(torch.Tensor)

    assert_captures(fn, rand(3), graphs=None, breaks=None)


# ------------------------------------------------------------------ dynamic shapes


@both
@pytest.mark.parametrize(
    "fn", [vmap_with_closure, grad_simple, jacobians, conditional_pytree], ids=lambda f: f.__name__
)
def test_sizes_that_vary(fn, backend):
    compiled = graphwright.compile(fn, dynamic=True, fullgraph=True, backend=backend or "eager")
    for size in (4, 5, 7):
        x = rand(size, 3)
        for got, want in zip(leaves(compiled(x)), leaves(fn(x)), strict=True):
            torch.testing.assert_close(got, want)


def leaves(value):
    return [value] if isinstance(value, torch.Tensor) else [leaf for item in value for leaf in leaves(item)]


# ------------------------------------------------------------------ combinations


class Square(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3 * ctx.saved_tensors[0]


def custom_functions(x):
    return (
        vmap(grad(lambda t: Square.apply(t).sum()))(x),
        vmap(Square.apply)(x),
        checkpoint(Square.apply, x, use_reentrant=False),
    )


def closure_of_a_closure(x):
    y = x + 1
    return vmap(lambda a: vmap(lambda b: a * b + y.sum() * WEIGHT)(x))(x)


def hands_back_what_it_got(x):
    return (
        vmap(lambda row: row)(x),
        vmap(lambda row: (row, WEIGHT))(x),
        grad(lambda t: (t.sum(), t), has_aux=True)(x[0]),
    )


def writes_between(x):
    y = x * 1
    first = vmap(lambda row: row + y)(x)
    y.add_(1)
    second = vmap(lambda row: row + y)(x)
    first.mul_(2)
    return first, second, y


def writes_to_the_input(x):
    with torch.no_grad():
        x.mul_(2)
        first = vmap(torch.sin)(x)
        x.add_(1)
    return first, vmap(torch.sin)(x)


def under_autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        return vmap(lambda row: row @ row)(x), grad(lambda t: (t @ t).float().sum())(x[0])


def checkpoint_without_grad(x):
    with torch.no_grad():
        return checkpoint(lambda t: t.sin() * WEIGHT, x, use_reentrant=False)


def transform_in_checkpoint(x):
    return checkpoint(lambda t: vmap(lambda row: row * WEIGHT)(t).sin(), x, use_reentrant=False)


def condition_in_checkpoint(x):
    def body(t):
        return torch.cond(t.sum() > 0, lambda u: u.sin(), lambda u: u.cos(), (t,)) * WEIGHT

    return checkpoint(body, x, use_reentrant=False)


def conditions_nested(x):
    def positive(t):
        return torch.cond(t.max() > 0.5, lambda u: u * 2 + WEIGHT, lambda u: u * 3, (t,))

    return torch.cond(x.sum() > 0, positive, lambda t: t - WEIGHT, (x,))


def in_a_loop(x):
    for scale in (1.0, 2.0):
        x = vmap(lambda row, scale=scale: row * scale)(x)
    return x


def in_a_comprehension(x):
    return [f(row) for f in map(grad, (lambda t: t.sum(), lambda t: (t * t).sum())) for row in x]


@both
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(
    "fn",
    [
        custom_functions,
        closure_of_a_closure,
        hands_back_what_it_got,
        writes_between,
        under_autocast,
        checkpoint_without_grad,
        transform_in_checkpoint,
        conditions_nested,
        in_a_loop,
        in_a_comprehension,
    ],
    ids=lambda fn: fn.__name__,
)
def test_combinations(fn, requires_grad, backend):
    x = rand(4, 3).requires_grad_(requires_grad)
    assert_captures(fn, x, backend=backend, rtol=1e-6, atol=1e-6)


@both
def test_inputs_that_are_written_around_a_transform(backend):
    assert_captures(writes_to_the_input, rand(4, 3), backend=backend)


def breaks_after(x):
    y = vmap(lambda row: row * WEIGHT)(x)
    graphwright.graph_break()
    return y + 1, grad(lambda t: t.sum())(y[0])


def breaks_inside(x):
    def body(row):
        row = row * 2
        graphwright.graph_break()
        return row + 1

    y = vmap(body)(x * 3)
    return y.sin()


def checkpoint_breaks_inside(x):
    def body(row):
        row = row * 2
        graphwright.graph_break()
        return row + 1

    return checkpoint(body, x * 3, use_reentrant=False).sin()


def checkpoint_raises(x):
    def body(t):
        raise KeyError("gone")

    try:
        return checkpoint(body, x.sin(), use_reentrant=False)
    except KeyError as error:
        return x * 2, str(error)


@both
@pytest.mark.parametrize(
    "fn",
    [breaks_after, breaks_inside, checkpoint_breaks_inside, checkpoint_raises, condition_in_checkpoint],
    ids=lambda fn: fn.__name__,
)
def test_breaks_around_and_inside(fn, backend):
    assert_captures(fn, rand(4, 3).requires_grad_(), graphs=None, breaks=None, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_warm_function_in_a_checkpoint(backend, caplog):
    """A checkpoint stops what it recomputes by an exception, which is no failure of the graph."""

    def program(a, b):
        return (a * b).sin() * b

    compiled = graphwright.compile(program, backend=backend)
    a, b = torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=True)
    compiled(a, b)
    compiled(a, b)
    found = []
    for call in (program, compiled):
        a.grad = b.grad = None
        checkpoint(call, a, b, use_reentrant=False).sum().backward()
        found.append((a.grad.clone(), b.grad.clone()))
    torch.testing.assert_close(found[0], found[1])
    assert "raised" not in caplog.text
