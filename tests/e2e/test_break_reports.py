"""What users see of graph breaks and can do about them: explain, logs, markers, logging moved after the graph."""

from __future__ import annotations

import logging
import math

import pytest
import torch

import graphwright
from graphwright.testing import CompileCounter, assert_captures

pytestmark = pytest.mark.e2e


def ones():
    return torch.ones(3)


def printing(x):
    y = x * 2
    print("y")
    return y + 1


# ------------------------------------------------------------------ explain


def test_explain_has_everything_as_attributes_and_as_text():
    told = graphwright.explain(printing)(ones())
    assert (told.graph_count, told.graph_break_count, told.op_count) == (2, 1, 2)
    assert all(isinstance(graph, torch.fx.GraphModule) for graph in told.graphs)
    assert [len(ops) for ops in told.ops_per_graph] == [1, 1]
    assert told.guards
    assert told.compile_time_s > 0
    assert torch.equal(told.out, ones() * 3)
    reason = told.break_reasons[0]
    assert reason.gw_id == "GW0012"
    assert reason.location.line == printing.__code__.co_firstlineno + 2
    assert [place.function for place in reason.user_stack] == ["printing"]
    text = str(told)
    counts = ("Graphs: 2", "Graph breaks: 1", "Ops: 2")
    for part in (*counts, "GW0012", __file__, 'print("y")', reason.remedy, "mul", "add"):
        assert part in text


def test_the_stack_of_a_break_in_inlined_calls():
    def outer(x):
        return printing(x * 3)

    reason = graphwright.explain(outer)(ones()).break_reasons[0]
    assert [place.function for place in reason.user_stack] == ["outer", "printing"]


def recursive(x, n):
    return x + 1 if n == 0 else recursive(x, n - 1)


def test_a_deep_stack_is_shortened_in_the_text():
    told = graphwright.explain(recursive)(ones(), 200)
    assert [reason.gw_id for reason in told.break_reasons] == ["GW0014"]
    assert len(told.break_reasons[0].user_stack) == 200
    assert len(str(told.break_reasons[0]).splitlines()) < 30
    assert "more calls at the same place" in str(told.break_reasons[0])


# ------------------------------------------------------------------ logs


LOGS = {
    "graph_breaks": ["GW0012", 'print("y")', "remedy"],
    "graph": ["call_function", "mul"],
    "bytecode": ["LOAD_GLOBAL", "original:", "replacement:", "resume_in_printing_at_"],
    "trace_bytecode": ["RESUME", "LOAD_FAST 'x'", "BINARY_OP"],
    "guards": ["guards of printing"],
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_prints_what_it_is_for(name, capsys):
    with graphwright.config.patch(logs=name):
        graphwright.compile(printing, backend="eager")(ones())
    shown = capsys.readouterr().err
    for part in LOGS[name]:
        assert part in shown
    assert all(line.startswith(f"[graphwright {name}") for line in shown.splitlines() if line.startswith("["))


def test_recompiles_say_which_guard_failed(capsys):
    with graphwright.config.patch(logs="recompiles"):
        compiled = graphwright.compile(lambda x, n: x * n, backend="eager", dynamic=False)
        compiled(ones(), 2)
        compiled(ones(), 3)
    assert "recompiling" in capsys.readouterr().err


def test_instructions_are_traced_with_their_stack(capsys):
    with graphwright.config.patch(logs="+trace_bytecode"):
        graphwright.compile(lambda x: x + 1, backend="eager")(ones())
    lines = capsys.readouterr().err.splitlines()
    assert any("BINARY_OP" in line and "L['x']" in line for line in lines)


# ------------------------------------------------------------------ markers


@pytest.fixture(params=["graphwright", "torch"])
def markers(request):
    return graphwright if request.param == "graphwright" else torch.compiler


def test_a_disabled_function_runs_in_eager(markers):
    @markers.disable
    def left_alone(y):
        return y + float(y.sum())

    def fn(x):
        return left_alone(x * 2) * 3

    assert_captures(fn, ones(), graphs=2, ops=2, breaks=["GW0010"])


def test_a_function_allowed_in_the_graph_is_one_node(markers):
    def opaque(y):
        return y * math.pi + 1

    markers.allow_in_graph(opaque)

    def fn(x):
        return opaque(x * 2) * 3

    counter = assert_captures(fn, ones(), ops=3)
    assert opaque in [node.target for node in counter.graphs[0].graph.nodes]


def test_a_constant_result_is_asked_for_once(markers):
    calls = []

    def setting():
        calls.append(1)
        return 3

    markers.assume_constant_result(setting)

    def fn(x):
        return x * setting()

    compiled = graphwright.compile(fn, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(ones()), ones() * 3)
    assert len(calls) <= 2


def test_a_substitute_is_looked_into(markers):
    from _bisect import bisect_left as original

    if markers is torch.compiler:
        from _bisect import bisect_right as original

    def stand_in(a, x, lo=0, hi=None, *, key=None):
        found = lo
        for value in a[lo:hi]:
            if value < x:
                found += 1
        return found

    markers.substitute_in_graph(original, skip_signature_check=True)(stand_in)

    def fn(x, numbers):
        return x * original(numbers, 4)

    assert_captures(fn, ones(), [1, 3, 5], ops=1)


def test_graph_break_breaks_there_and_does_nothing_else():
    def fn(x):
        y = x * 2
        graphwright.graph_break("here")
        return y + 1

    assert_captures(fn, ones(), graphs=2, ops=2, breaks=["GW0011"])
    assert graphwright.graph_break() is None


# ------------------------------------------------------------------ logging calls moved after the graph


log = logging.getLogger("graphwright.tests")


@pytest.fixture
def moved():
    with graphwright.config.patch(reorderable_logging_functions={print, log.warning}):
        yield


@pytest.mark.usefixtures("moved")
class TestMovedCalls:
    def test_printing_is_moved_after_the_graph_in_order(self):
        def fn(x):
            print("first", x.shape)
            y = x * 2
            print("second", y, sep=": ")
            z = y + 1
            print("third", z.dtype, end="!\n")
            return z

        assert_captures(fn, ones(), ops=2)

    def test_a_method_of_a_logger(self, caplog):
        def fn(x):
            y = x * 2
            log.warning("y is %s, and %d", y, 3)
            return y + 1

        graphwright.compile(fn, backend="eager", fullgraph=True)(ones())
        assert caplog.messages == ["y is tensor([2., 2., 2.]), and 3"]

    def test_a_registered_function_in_an_inlined_call_and_before_a_break(self):
        def inner(y):
            print("in", y)
            return y + 1

        def fn(x):
            y = inner(x)
            if y.sum() > 0:
                print("positive", y)
                y = inner(y)
            graphwright.graph_break()
            print("last")
            return y * 2

        assert_captures(fn, ones(), graphs=None, breaks=["GW0001", "GW0011"])

    def test_a_call_stays_where_it_is_if_a_tensor_changes_afterwards(self):
        def fn(x):
            y = x * 2
            print("before", y)
            y.add_(1)
            print("after", y)
            x.mul_(5)
            return y * 3

        assert_captures(fn, ones(), graphs=2, breaks=["GW0012"])

    def test_a_call_with_a_list_stays_where_it_is(self):
        def fn(x):
            items = [1]
            print(items)
            items.append(2)
            return x * len(items)

        assert_captures(fn, ones(), graphs=None, breaks=["GW0012"])

    def test_calls_are_made_before_an_exception_leaves(self):
        def fn(x):
            y = x * 2
            print("told", y)
            raise ValueError("end")

        assert_captures(fn, ones(), graphs=None, breaks=None)


def test_functions_that_are_not_registered_stay():
    counter = CompileCounter()
    with graphwright.config.patch(reorderable_logging_functions={log.warning}):
        graphwright.compile(printing, backend=counter)(ones())
    assert counter.frame_count == 2
