"""Graph breaks of all kinds, in all places: the program goes on, and does what it does in eager."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import tempfile
import threading
import types
import warnings
from typing import Any

import pytest
import torch

import graphwright
from graphwright import events
from graphwright.testing import CompileCounter, assert_captures

pytestmark = pytest.mark.e2e


def same(fn, *args, **expected):
    """Check a function against eager, without expecting a number of graphs unless told."""
    expected.setdefault("graphs", None)
    expected.setdefault("breaks", None)
    return assert_captures(fn, *args, **expected)


def ones():
    return torch.ones(3)


# ------------------------------------------------------------------ branches on values: counts of the course


def branch(x):
    y = x * 2
    if y.sum() > 0:
        z = y.relu()
    else:
        z = y.tanh()
    return z + 1


def graph_ops(graph):
    return [getattr(n.target, "__name__", n.target) for n in graph.graph.nodes if n.op.startswith("call")]


def test_a_branch_has_three_graphs_after_both_sides_ran():
    counter = CompileCounter()
    compiled = graphwright.compile(branch, backend=counter)
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3), -torch.ones(3)):
        assert torch.equal(compiled(x), branch(x))
    assert [graph_ops(g) for g in counter.graphs] == [["mul", "sum", "gt"], ["relu", "add"], ["tanh", "add"]]


def test_a_side_is_compiled_when_it_is_first_reached():
    counter = CompileCounter()
    compiled = graphwright.compile(branch, backend=counter)
    compiled(torch.ones(3))
    assert counter.frame_count == 2
    compiled(-torch.ones(3))
    assert counter.frame_count == 3


def test_the_first_graph_returns_what_both_sides_need_and_nothing_else():
    counter = CompileCounter()
    graphwright.compile(branch, backend=counter)(torch.ones(3))
    (outputs,) = counter.graphs[0].graph.output_node().args
    assert [node.name for node in outputs] == ["y", "gt"] or {node.name for node in outputs} == {"mul", "gt"}


def test_a_branch_reports_one_break():
    told = graphwright.explain(branch)(torch.ones(3))
    assert told.graph_count == 2
    assert told.graph_break_count == 1
    assert told.break_reasons[0].gw_id == "GW0001"
    assert told.break_reasons[0].location.line == branch.__code__.co_firstlineno + 2


def test_a_resume_function_is_named_after_function_and_line():
    names = []
    with events.collected(events.FrameStarted) as found:
        graphwright.compile(branch, backend="eager")(torch.ones(3))
    names = [event.function for event in found]
    line = branch.__code__.co_firstlineno + 3
    assert names == ["branch", f"resume_in_branch_at_{line}"]


def while_on_tensor(x):
    while x.sum() < 20:
        x = x * 2
    return x + 1


def function_from(source):
    """The function `fn` of a piece of source, whose asserts pytest leaves as they are."""
    namespace = {}
    exec(source, namespace)
    return namespace["fn"]


assert_on_tensor = function_from(
    """
def fn(x):
    y = x * 2
    assert y.any(), "nothing there"
    return y + 1
"""
)


def boolean_operators(x):
    y = x * 2
    if y.sum() > 0 and y.max() > 1 or y.min() < -100:
        y = y + 1
    return (y.sum() > 100) or y * 2


def ternary(x):
    y = x * 2
    return (y.relu() if y.sum() > 0 else y.tanh()) + (y if y.max() > 100 else -y)


def match_statement(x):
    y = x * 2
    match y.dim():
        case 1 if y.sum() > 0:
            return y + 1
        case 1:
            return y - 1
        case _:
            return y


def not_and_comparison_chain(x):
    y = x + 1
    if not (0 < y.sum() < 5):
        return y * 3
    return y * 4


@pytest.mark.parametrize(
    "fn", [while_on_tensor, assert_on_tensor, boolean_operators, ternary, match_statement, not_and_comparison_chain]
)
@pytest.mark.parametrize("x", [torch.ones(3), torch.ones(3) * 2])
def test_decisions_by_values(fn, x):
    counter = same(fn, x)
    assert counter.frame_count >= 1
    if fn is not while_on_tensor:
        same(fn, -x)
        same(fn, x * 0)


# ------------------------------------------------------------------ loops


def test_a_break_in_a_loop_does_not_compile_once_per_turn():
    def fn(x, n):
        y = x * 2
        for i in range(n):
            y = y + 1
            print(i, y)
        return y * 3

    few = same(fn, ones(), 3).frame_count
    assert same(fn, ones(), 12).frame_count == few


def test_continue_and_break_of_loops():
    def fn(x):
        total = x * 0
        for i in range(6):
            if i == 1:
                continue
            if x.sum() > i and i == 4:
                break
            total = total + i
        else:
            total = total - 100
        return total + 1

    same(fn, ones())
    same(fn, -ones())


def test_nested_loops_and_an_iterator_in_the_middle():
    def fn(x):
        found = []
        rest = iter([1, 2, 3, 4])
        next(rest)
        print("before")
        for value in rest:
            for other in (10, 20):
                found.append(x * value + other)
                if value == 3:
                    print(value, other)
        return found

    same(fn, ones())


def test_enumerate_zip_and_dict_iteration_over_a_break():
    def fn(x, table):
        out = {}
        for i, (key, value) in enumerate(table.items()):
            out[key] = value * x + i
            graphwright.graph_break()
        for a, b in zip(out.values(), [1, 2]):
            x = x + a * b
        return x, out

    same(fn, ones(), {"a": ones(), "b": ones() * 2})


# ------------------------------------------------------------------ with blocks


class Recorder:
    def __init__(self, swallow=False):
        self.story = []
        self.swallow = swallow

    def __enter__(self):
        self.story.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.story.append("exit" if kind is None else kind.__name__)
        return self.swallow


def test_modes_are_kept_over_a_break():
    def fn(x):
        with torch.no_grad():
            y = x * 2
            print("inside", torch.is_grad_enabled())
            z = y + 1
        w = x * z
        return y.requires_grad, z.requires_grad, w

    same(fn, torch.ones(3, requires_grad=True))


def test_nested_modes_over_several_breaks():
    def fn(x):
        with torch.no_grad():
            with torch.enable_grad():
                y = x * 2
                print("a", torch.is_grad_enabled())
                y = y + 1
            print("b", torch.is_grad_enabled())
            z = x * 3
        print("c", torch.is_grad_enabled())
        return y, z, x * 4

    same(fn, torch.ones(3, requires_grad=True))


def test_autocast_over_a_break():
    def fn(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            print(y.dtype)
            z = y @ x
        return z, x @ x

    same(fn, torch.ones(3, 3))


def test_a_lock_is_taken_and_released_once():
    lock = threading.Lock()

    def fn(x):
        with lock:
            y = x * 2
            print(lock.locked())
            z = y + 1
        return z, lock.locked()

    same(fn, ones())
    assert not lock.locked()


@pytest.mark.parametrize("swallow", [False, True])
def test_a_user_manager_is_entered_and_left_once(swallow):
    def fn(x, manager):
        with manager as m:
            y = x * 2
            print(len(m.story))
            y = y + 1
            if y.sum() > 0:
                y = y + 2
        return y, manager.story

    same(fn, ones(), Recorder(swallow))


@pytest.mark.parametrize("swallow", [False, True])
def test_an_exception_after_a_break_reaches_the_manager(swallow):
    def fn(x, manager):
        y = x
        try:
            with manager:
                y = x * 2
                print("inside")
                y = y + 1
                raise KeyError("gone")
        except KeyError as error:
            y = y * len(error.args)
        return y, manager.story

    same(fn, ones(), Recorder(swallow))


def test_contextlib_managers_over_a_break():
    @contextlib.contextmanager
    def scaled(story):
        story.append("in")
        try:
            yield 3
        finally:
            story.append("out")

    def fn(x):
        story = []
        with scaled(story) as factor, contextlib.suppress(ValueError):
            y = x * factor
            print("here", story)
            y = y + 1
            raise ValueError
        return y, story

    same(fn, ones())


def test_return_out_of_a_with_block_after_a_break():
    def fn(x, manager):
        with manager:
            y = x * 2
            print("inside")
            return y + 1

    same(fn, ones(), Recorder())


# ------------------------------------------------------------------ the stack


def add(*parts, **named):
    total = sum(parts)
    for value in named.values():
        total = total + value
    return total


def told(value):
    print("told")
    return value + 1


def test_a_call_half_built():
    def fn(x):
        return add(x * 2, told(x), x * 3)

    same(fn, ones())


def test_keyword_call_half_built():
    def fn(x):
        return add(x * 2, told(x), first=x * 3, second=told(x * 4))

    same(fn, ones())


def test_star_arguments_half_built():
    def fn(x, *rest, **named):
        return add(*rest, told(x), *(x, x * 2), **named, last=told(x))

    same(fn, ones(), ones() * 2, key=ones() * 3)


def test_method_call_and_subscripts_half_built():
    def fn(x):
        found = [1, 2]
        found.append(told(x))
        table = {"a": x * 2, "b": told(x)}
        table["c"] = found[told(0) - 1] + told(x)
        return found, table, (x, told(x)), x[told(0) :], f"{told(2)} {x.dim()}"

    same(fn, ones())


def test_a_comparison_chain_and_boolean_values_half_built():
    def fn(x):
        return 1 < told(1) < 3, told(x).dim() and told(x), [told(i) for i in range(2)]

    same(fn, ones())


def test_one_value_twice_on_the_stack_stays_one():
    def fn(x):
        a = [x * 2]
        return add([a, a] and x, told(x)), [a, a]

    same(fn, ones())


# ------------------------------------------------------------------ variables


def test_unbound_locals_stay_unbound():
    def fn(x):
        if x.sum() > 0:
            bound = x * 2
        print("between")
        try:
            return bound + 1
        except UnboundLocalError as error:
            return x, str(error)

    same(fn, ones())
    same(fn, -ones())


def test_a_deleted_variable_stays_deleted():
    def fn(x):
        y = x * 2
        z = y + 1
        del y
        print("between")
        try:
            return y  # noqa: F821  unbound is what is tested
        except UnboundLocalError:
            return z

    same(fn, ones())


def test_cells_are_shared_with_closures_over_a_break():
    def fn(x):
        count = 0

        def more():
            nonlocal count
            count += 1
            return x * count

        a = more()
        print("between", count)
        b = more()
        x = x + 100
        c = more()
        graphwright.graph_break()
        return a, b, c, count, more()

    same(fn, ones())


def test_an_argument_in_a_cell_and_a_cell_without_value():
    def fn(x):
        def late():
            return after + x

        print("before")
        try:
            late()
        except NameError as error:
            said = str(error)
        after = x * 2
        print("after")
        return late(), said

    same(fn, ones())


def test_free_variables_changed_around_a_break():
    def make():
        held, step = torch.ones(3), [1]

        def fn(x):
            nonlocal held
            held = held + x
            print("a")
            step.append(2)
            y = held * len(step)
            held = torch.zeros(3)
            return y

        return fn, lambda: (held, step)

    (eager, eager_state), (fn, state) = make(), make()
    compiled = graphwright.compile(fn, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(ones()), eager(ones()))
        assert torch.equal(state()[0], eager_state()[0])
        assert state()[1] == eager_state()[1]


def test_defaults_keyword_only_and_star_parameters():
    def fn(a, b=2, *rest, c, d=4, **more):
        print("x")
        return a * b + c * d + sum(rest) + sum(more.values())

    same(fn, ones(), 3, ones(), ones(), c=ones(), e=ones())
    same(fn, ones(), c=ones())


def test_mutations_before_and_after_a_break():
    def fn(x, items, table):
        items.append(x * 2)
        table["n"] = len(items)
        x.add_(1)
        print(len(items), table)
        items.append(x * 3)
        x.mul_(2)
        return items, x

    same(fn, ones(), [], {})


def test_aliases_over_a_break():
    def fn(x, items):
        alias = items
        view = x[1:]
        graphwright.graph_break()
        alias.append(1)
        view.add_(1)
        return items is alias, len(items), x

    same(fn, ones(), [])


class Base:
    def scale(self, x):
        return x * 3


class Derived(Base):
    def after_a_break(self, x):
        y = x * 2
        print("before")
        return super().scale(y) + 1

    def on_a_half_built_stack(self, x):
        return x * 2 + super().scale(told(x)) + told(x) + super().scale(x)

    def with_self_in_a_cell(self, x):
        def inner():
            return self

        print("before")
        y = super().scale(x)
        return y, inner() is self

    def scale(self, x):
        y = told(x)
        print("scale")
        return super().scale(y)

    def through_a_call(self, x):
        return self.scale(x * 2) * super().scale(x)


@pytest.mark.parametrize(
    "name", ["after_a_break", "on_a_half_built_stack", "with_self_in_a_cell", "scale", "through_a_call"]
)
def test_super_without_arguments(name):
    same(getattr(Derived(), name), ones())


# ------------------------------------------------------------------ comprehensions, inlined calls


def test_a_break_in_a_comprehension():
    def fn(x):
        return [told(x * i) for i in range(3)], {i: told(x) for i in range(2)}, sum(told(x) for _ in range(2))

    same(fn, ones())


def deep(x, n):
    y = x * 2
    if n == 0:
        print("bottom")
        return y + 1
    return deep(y, n - 1) * 3


@pytest.mark.parametrize("depth", [1, 3])
def test_a_break_in_inlined_calls(depth):
    same(deep, ones(), depth)


def test_a_break_in_a_method_property_and_operator():
    class Thing:
        def __init__(self, value):
            self.value = value

        @property
        def twice(self):
            print("property")
            return self.value * 2

        def __add__(self, other):
            print("add")
            return self.value + other

        def __getitem__(self, index):
            print("item", index)
            return self.value[index]

        def __call__(self, x):
            print("call")
            return self.value * x

    def fn(x):
        thing = Thing(x)
        return thing.twice + 1, thing + x, thing[0], thing(x)

    same(fn, ones())


def test_a_break_in_a_module():
    class Loud(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            y = self.linear(x)
            print(y.shape)
            return y.relu()

    torch.manual_seed(0)
    counter = same(torch.nn.Sequential(torch.nn.Linear(3, 3), Loud(), torch.nn.Linear(3, 3)), ones())
    assert counter.frame_count >= 2


# ------------------------------------------------------------------ what breaks


def test_values_asked_for():
    def fn(x):
        a, b, c, d = x.sum().item(), x.tolist(), int(x[0]), float(x[1])
        return a, b, c, d, bool(x[2]), x * a + c, {a: x * d}

    same(fn, ones())


def test_logging_warnings_and_files(caplog):
    log = logging.getLogger("graphs")

    def fn(x):
        y = x * 2
        log.warning("y has %s", y.shape)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("careful", stacklevel=1)
        with tempfile.TemporaryFile("w+") as file:
            file.write("hello")
            file.seek(0)
            text = file.read()
        return y + 1, [str(w.message) for w in caught], text

    same(fn, ones(), times=1)
    assert [record.getMessage() for record in caplog.records] == ["y has torch.Size([3])"] * 2


def test_exec_eval_and_locals():
    def fn(x):
        y = x * 2
        namespace = {"y": y}
        exec("z = y + 1", namespace)
        w = eval("z * 2", namespace)
        return w, sorted(locals())[-1], y + len(globals() and [1])

    same(fn, ones())


def test_a_class_made_inside():
    def fn(x):
        y = x * 2

        class Box:
            scale = 3

            def times(self, value):
                return value * self.scale + y

        return Box().times(y), Box.__name__

    same(fn, ones())


def test_dynamic_attributes():
    class Dynamic:
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            print("asked for", name)
            return len(name)

    def fn(x, thing):
        setattr(thing, "made", x * 2)
        return thing.made + thing.unknown, hasattr(thing, "other"), vars(thing)

    same(fn, ones(), Dynamic())


# ------------------------------------------------------------------ frames entered in eager


def captured_functions(fn, *args):
    graphwright.reset()
    with events.collected(events.FrameStarted) as found:
        graphwright.compile(fn, backend="eager")(*args)
    return [event.function.rpartition(".")[2] for event in found]


def user_part(x):
    return x * 2 + 1


def test_a_callback_of_a_c_function_is_captured():
    def key(item):
        return (item * 2).sum().item()

    def fn(x):
        return sorted([x * 3, x, x * 2], key=key)

    same(fn, ones())
    assert "key" in captured_functions(fn, ones())


def test_a_function_that_a_nonrecursively_disabled_one_calls_is_captured():
    @functools.partial(graphwright.disable, recursive=False)
    def outside(x):
        return user_part(x) + 1

    def fn(x):
        return outside(x * 2) + 1

    same(fn, ones())
    assert "outside" in captured_functions(fn, ones())


def test_nothing_that_a_disabled_function_calls_is_captured():
    @graphwright.disable
    def outside(x):
        return user_part(x) + 1

    def fn(x):
        return outside(x * 2) + 1

    same(fn, ones(), breaks=["GW0010"], times=1)
    assert "user_part" not in captured_functions(fn, ones())


def test_tensor_hooks_run():
    def fn(x):
        y = x * 2
        y.register_hook(lambda grad: grad * 3)
        z = (y * y).sum()
        z.backward()
        return x.grad + 1

    same(fn, torch.ones(3, requires_grad=True), backward=False)


def test_module_hooks_run():
    module = torch.nn.Linear(3, 3)
    module.register_forward_hook(lambda m, a, out: (print("hook"), out * 2)[1])
    same(module, ones())


def test_a_torch_function_override_is_captured_by_itself():
    class Plain:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return user_part(args[1])

    def fn(x, thing):
        return torch.add(thing, x * 2) + 1

    same(fn, ones(), Plain())


def rows(x):
    for row in x:
        yield user_part(row)


def test_a_generator_from_outside_runs_in_eager_and_its_calls_are_captured():
    def fn(x, generator):
        y = x * 2
        return [row + y for row in generator]

    x = torch.ones(2, 3)
    compiled = graphwright.compile(fn, backend="eager")
    want = fn(x[0], rows(x))
    got = compiled(x[0], rows(x))
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert "user_part" in captured_functions(fn, x[0], rows(x))


def test_a_coroutine_runs_in_eager_and_its_calls_are_captured():
    async def work(x):
        await asyncio.sleep(0)
        return user_part(x)

    def fn(x):
        y = x * 2
        return asyncio.run(work(y)) + y

    same(fn, ones())
    assert "user_part" in captured_functions(fn, ones())


@pytest.mark.parametrize("kind", ["generator", "coroutine"])
def test_a_generator_or_coroutine_function_cannot_be_compiled_whole(kind):
    async def work(x):
        return user_part(x)

    fn = {"generator": rows, "coroutine": work}[kind]
    with pytest.raises(graphwright.exc.Unsupported, match=f"GW0013.*a {kind} function"):
        graphwright.compile(fn, backend="eager", fullgraph=True)
    assert graphwright.compile(fn, backend="eager") is fn


def test_a_generator_that_breaks_inside():
    def loud(x):
        for i in range(3):
            print("row", i)
            yield x * i

    def fn(x):
        return [row + 1 for row in loud(x * 2)]

    same(fn, ones())


# ------------------------------------------------------------------ many breaks


def test_many_breaks_in_one_function():
    def fn(x):
        x = x + 1
        print(1)
        x = x + 2
        print(2)
        x = x + 3
        print(3)
        x = x + 4
        print(4)
        return x + 5

    same(fn, ones(), graphs=5, ops=5, breaks=["GW0012"] * 4)


def test_the_caller_goes_on_after_a_break_in_a_library_callback():
    def fn(x):
        found = list(map(told, [x, x * 2]))
        found += [*filter(lambda t: t.sum() > 4, found)]
        found.append(functools.reduce(lambda a, b: told(a) + b, found))
        return found, types.SimpleNamespace(a=told(x)).a

    same(fn, ones())


def test_a_closure_left_somewhere_shares_its_cell_with_the_frame() -> None:
    class Holder:
        pass

    def by_attribute(x: Any, n: int, holder: Any, table: dict[str, Any]) -> Any:
        holder.f = lambda: n
        graphwright.graph_break()
        n -= 1
        return x * n

    def by_item_from_an_inlined_call(x: Any, n: int, holder: Any, table: dict[str, Any]) -> Any:
        y = x + 1

        def keep(key: str) -> None:
            table[key] = lambda: n
            graphwright.graph_break()

        keep("f")
        n += 1
        return y * n

    for program in (by_attribute, by_item_from_an_inlined_call):
        compiled = graphwright.compile(program, backend="eager")
        for _ in range(2):
            found = []
            for function in (program, compiled):
                holder, table = Holder(), {}
                result = function(torch.ones(2), 5, holder, table)
                kept = getattr(holder, "f", None) or table["f"]
                found.append((result.tolist(), kept()))
            assert found[0] == found[1]
