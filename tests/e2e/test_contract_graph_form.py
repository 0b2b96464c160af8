"""Graphs in the form that a backend asks for, delivered by the framework."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import graphwright
import graphwright.events as events
from graphwright.exc import BackendCompilerFailed
from graphwright_plugins import (
    BackendContractError,
    Capabilities,
    GraphForm,
    GraphKind,
    InputKind,
    NoOptions,
    UnsupportedGraph,
    run_in_eager,
    shared_of,
    signature_of,
)


class Recorder:
    """Keeps each graph that it gets, with its signature."""

    name = "recorder"
    options_type = NoOptions

    def __init__(self, capabilities=None, **form):
        self.graph_form = GraphForm(**form)
        self.capabilities = capabilities or Capabilities()
        self.graphs, self.signatures, self.examples, self.calls = [], [], [], []

    def compile(self, graph, example_inputs, options):
        self.graphs.append(graph)
        self.signatures.append(signature_of(graph))
        self.examples.append(list(example_inputs))
        assert len(self.signatures[-1].inputs) == len(example_inputs) == len(graph.graph.find_nodes(op="placeholder"))
        compiled = run_in_eager(graph, example_inputs) if self.graph_form.level == "aten" else graph.forward

        def call(*inputs):
            self.calls.append(inputs)
            return compiled(list(inputs)) if self.graph_form.level == "aten" else compiled(*inputs)

        return call

    def targets(self, index=0):
        return {str(node.target) for node in self.graphs[index].graph.nodes if node.op.startswith("call_")}


LEVELS = pytest.mark.parametrize("level", ["torch", "aten"])


def check(fn, backend, *args, **how):
    """Compile and compare with eager, results and changed arguments."""
    mine, theirs = [a.clone() if isinstance(a, torch.Tensor) else a for a in args], list(args)
    mine = [
        m.requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else m
        for m, a in zip((m.detach() if isinstance(m, torch.Tensor) else m for m in mine), args, strict=True)
    ]
    compiled = graphwright.compile(fn, backend=backend, **how)
    torch.testing.assert_close(compiled(*mine), fn(*theirs))
    torch.testing.assert_close(mine, theirs)
    return compiled


# ---------------------------------------------------------------- level


@pytest.mark.parametrize(
    "form",
    [
        {"sizes": "from_tensors"},
        {"sizes": "fixed"},
        {"aliasing": False, "literals": False},
        {"contiguous": True},
        {"weights": "frozen"},
        {"dtypes": {torch.float32}},
    ],
    ids=str,
)
@LEVELS
def test_a_graph_without_inputs_comes_in_every_form(level, form):  # fmt: skip
    def constant():
        return torch.full((2, 3), 1.5), torch.ones(2)

    def number(n):
        return torch.full((2,), 1.0) * n

    backend = Recorder(level=level, **form)
    check(constant, backend)
    assert backend.examples == [[]]
    for n in (2, 3, 5):
        check(number, backend, n)


def test_operators_come_functional_and_the_framework_copies_what_changed():
    def fn(x, y):
        y.add_(1)
        return torch.nn.functional.gelu(x) * y

    backend = Recorder(level="aten")
    check(fn, backend, torch.randn(3), torch.randn(3))
    assert backend.targets() == {"aten.add.Tensor", "aten.gelu.default", "aten.mul.Tensor"}
    (signature,) = backend.signatures
    assert signature.kind is GraphKind.INFERENCE
    assert [output.carries_mutation_of for output in signature.outputs] == [0, None]
    backend = Recorder(level="aten", in_place=True)
    check(fn, backend, torch.randn(3), torch.randn(3))
    assert "aten.copy_.default" in backend.targets()
    assert [entry.mutated for entry in backend.signatures[0]] == [True, False]


def test_decompositions_by_set_by_name_and_what_to_keep():
    def fn(x):
        return torch.nn.functional.gelu(x).clamp(0)

    for form, expected in (
        ({"decompositions": "core"}, {"aten.gelu.default", "aten.clamp.default"}),
        ({"decompositions": ["aten.gelu"]}, {"aten.clamp.default"}),
        ({"decompositions": ["aten.gelu"], "keep": ["aten.gelu.default"]}, {"aten.gelu.default", "aten.clamp.default"}),
        ({"decompositions": ["aten.gelu"], "keep": lambda op: "gelu" in str(op)}, {"aten.gelu.default"}),
    ):
        backend = Recorder(level="aten", **form)
        check(fn, backend, torch.randn(3))
        assert expected <= backend.targets(), form
        assert ("aten.gelu.default" in backend.targets()) == ("aten.gelu.default" in expected), form


def test_wrong_forms_are_refused():
    with pytest.raises(ValueError, match="need the level 'aten'"):
        GraphForm(decompositions="core")
    with pytest.raises(ValueError, match=r"no decomposition for 'aten\.nothing'"):
        GraphForm(level="aten", decompositions=["aten.nothing"]).decomposition_table()


def test_forward_and_backward_share_a_dict():
    kept = []

    class Sharing(Recorder):
        def compile(self, graph, example_inputs, options):
            kept.append(shared_of(graph))
            kept[-1][signature_of(graph).kind] = True
            return super().compile(graph, example_inputs, options)

    x = torch.randn(3, requires_grad=True)
    graphwright.compile(lambda x: x.sin() * x, backend=Sharing(level="aten"))(x).sum().backward()
    assert kept[0] is kept[1]
    assert set(kept[0]) == {GraphKind.FORWARD, GraphKind.BACKWARD}


# ---------------------------------------------------------------- sizes


def sized(x, n):
    return x.reshape(-1) * x.shape[0] + n


@LEVELS
def test_fixed_sizes_compile_anew_for_each(level):
    backend = Recorder(level=level, sizes="fixed")
    compiled = graphwright.compile(sized, backend=backend)
    for rows in (2, 5, 7, 5):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x, rows), sized(x, rows))
    assert len(backend.graphs) == 3
    for examples, signature in zip(backend.examples, backend.signatures, strict=True):
        assert all(type(size) is int for example in examples for size in example.shape)
        assert all(type(size) is int for size in signature.inputs[0].tensor.shape)
        assert [entry.kind for entry in signature] == [InputKind.USER_INPUT]


@LEVELS
def test_a_backend_without_dynamic_shapes_gets_fixed_sizes_unasked(level):
    del level

    class Plain:
        name = "plain"
        capabilities = Capabilities(dynamic_shapes=False)

        def compile(self, graph, example_inputs, options):
            assert not any(isinstance(size, torch.SymInt) for example in example_inputs for size in example.shape)
            return graph.forward

    compiled = graphwright.compile(sized, backend=Plain(), dynamic=True)
    for rows in (2, 3, 2):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x, 4), sized(x, 4))


@LEVELS
def test_sizes_are_read_off_tensors(level):
    def fn(x, y):
        n = y.shape[0]
        return x.new_zeros(n).sum() + x * n, y.view(-1, 3)

    backend = Recorder(level=level, sizes="from_tensors")
    compiled = graphwright.compile(fn, backend=backend, dynamic=True)
    for rows in (2, 5, 7):
        x, y = torch.randn(4), torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x, y), fn(x, y))
    assert len(backend.graphs) == 1
    assert all(isinstance(value, torch.Tensor) for value in backend.examples[0])
    assert any(isinstance(size, torch.SymInt) for value in backend.examples[0] for size in value.shape)


@LEVELS
def test_a_number_that_is_no_size_is_fixed(level):
    def fn(x, n):
        return x * n + x.shape[0]

    backend = Recorder(level=level, sizes="from_tensors")
    compiled = graphwright.compile(fn, backend=backend, dynamic=True)
    for rows, n in ((2, 8), (5, 8), (5, 9), (4, 9)):
        x = torch.randn(rows)
        torch.testing.assert_close(compiled(x, n), fn(x, n))
    assert len(backend.graphs) == 2


@LEVELS
def test_gradients_with_sizes_off_tensors(level):
    def fn(x, w):
        return (x @ w).relu() * x.shape[0]

    backend = Recorder(level=level, sizes="from_tensors")
    compiled = graphwright.compile(fn, backend=backend, dynamic=True)
    for rows in (2, 5):
        inputs = [torch.randn(rows, 3, requires_grad=True), torch.randn(3, 4, requires_grad=True)]
        actual = torch.autograd.grad(compiled(*inputs).sum(), inputs)
        torch.testing.assert_close(actual, torch.autograd.grad(fn(*inputs).sum(), inputs))
    assert len(backend.graphs) == (1 if level == "torch" else 2)


# ---------------------------------------------------------------- outputs


def aliases(x, y):
    z = x * y
    return x, z, z.view(-1), None, z, 3, x[0], y.t(), z[1:]


@LEVELS
@pytest.mark.parametrize("dynamic", [False, True])
def test_outputs_that_alias_are_made_around_the_graph(level, dynamic):
    backend = Recorder(level=level, aliasing=False, literals=False)
    compiled = graphwright.compile(aliases, backend=backend, dynamic=dynamic)
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    for _ in range(2):
        mine = compiled(x, y)
        torch.testing.assert_close(mine, aliases(x, y))
        assert mine[0] is x
        assert mine[1] is mine[4]
        assert mine[2].data_ptr() == mine[1].data_ptr()
        assert mine[6].data_ptr() == x.data_ptr()
        assert mine[7]._base is y
        assert mine[8].data_ptr() == mine[1][1:].data_ptr()
    (signature,) = backend.signatures
    assert len(signature.outputs) == 1
    for output in signature.outputs:
        assert output.aliases_input is None
        assert output.aliases_output is None
        assert output.name


@LEVELS
def test_views_made_around_the_graph_carry_gradients(level):
    def fn(x, w):
        z = x * w
        return z, z.view(-1), x[0], x

    backend = Recorder(level=level, aliasing=False)
    inputs = [torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)]
    compiled = graphwright.compile(fn, backend=backend)

    def loss(results):
        return sum((i + 1) * (r * r).sum() for i, r in enumerate(results))

    actual = torch.autograd.grad(loss(compiled(*inputs)), inputs)
    torch.testing.assert_close(actual, torch.autograd.grad(loss(fn(*inputs)), inputs))


def test_in_place_results_are_the_tensors_themselves():
    def fn(x, y):
        a = x.add_(1)
        b = (x * y).mul_(2)
        return a, b, b.view(-1), a[0]

    backend = Recorder(aliasing=False)
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    mine, theirs = x.clone(), x.clone()
    results = graphwright.compile(fn, backend=backend)(mine, y)
    torch.testing.assert_close(results, fn(theirs, y))
    torch.testing.assert_close(mine, theirs)
    assert results[0] is mine
    assert results[3].data_ptr() == mine.data_ptr()


# ---------------------------------------------------------------- layout, dtypes, training


@LEVELS
@pytest.mark.parametrize("dynamic", [False, True])
def test_inputs_are_contiguous(level, dynamic):
    def fn(x, y):
        return x + y.sum(0)

    backend = Recorder(level=level, contiguous=True)
    compiled = graphwright.compile(fn, backend=backend, dynamic=dynamic)
    for _ in range(2):
        x, y = torch.randn(3, 4).t(), torch.randn(5, 1).expand(5, 3)
        torch.testing.assert_close(compiled(x, y), fn(x, y))
    assert all(value.is_contiguous() for call in backend.calls for value in call if isinstance(value, torch.Tensor))


def test_writing_to_what_is_not_contiguous_is_refused_or_falls_back():
    def fn(x):
        x.add_(1)
        return x * 2

    with pytest.raises(BackendCompilerFailed, match="not contiguous") as caught:
        graphwright.compile(fn, backend=Recorder(contiguous=True))(torch.randn(3, 4).t())
    assert isinstance(caught.value.__cause__, UnsupportedGraph)
    backend = Recorder(contiguous=True)
    x = torch.randn(3, 4).t()
    expected = fn(x.clone())
    actual = graphwright.compile(fn, backend=backend, on_backend_error="fallback")(x)
    torch.testing.assert_close(actual, expected)
    assert not backend.graphs


@LEVELS
def test_a_dtype_that_is_not_taken_is_named(level):
    backend = Recorder(level=level, dtypes=frozenset({torch.float32}))
    check(lambda x: x + 1, backend, torch.randn(3))
    with pytest.raises(BackendCompilerFailed, match=r"of dtype torch\.float64, which the backend does not take"):
        graphwright.compile(lambda x: x.double() + 1, backend=backend)(torch.randn(3))


@LEVELS
def test_a_backend_for_inference_gives_training_to_the_fallback(level):
    backend = Recorder(Capabilities(training=False), level=level)
    w = torch.nn.Parameter(torch.randn(3))
    compiled = graphwright.compile(lambda x: (x * w).sin(), backend=backend)
    x = torch.randn(3)
    with events.collected(events.BackendFellBack) as found:
        compiled(x).sum().backward()
    assert w.grad is not None
    assert not backend.graphs
    assert [event.kind for event in found] == ["unsupported"]
    assert "does inference only" in str(found[0].error)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), (x * w).sin())
    assert len(backend.graphs) == 1


def test_a_form_may_depend_on_options_and_must_be_one():
    class Wrong(Recorder):
        def __init__(self):
            super().__init__()
            self.graph_form = lambda options: "aten"

    with pytest.raises(BackendContractError, match="graph_form of type str instead of GraphForm"):
        graphwright.compile(lambda x: x + 1, backend=Wrong())


def test_threads_that_compile_at_once_leave_modules_as_they_were():
    before = (torch.nn.Module.__call__, torch.nn.Module.__getattr__)

    def work(number):
        compiled = graphwright.compile(lambda x: (x * number).sin().sum(), backend="aot_eager")
        for _ in range(2):
            x = torch.randn(3, requires_grad=True)
            compiled(x).backward()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(12)))
    assert (torch.nn.Module.__call__, torch.nn.Module.__getattr__) == before
