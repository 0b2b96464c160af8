"""The loop: exceptions that leave, stopping, limits, locations."""

import sys

import pytest

from graphwright import graph_breaks as gb
from graphwright.exc import GraphBreak
from graphwright.symbolic.frame_state import Stopped


def raises_below(x):
    return inner_raise(x) + 1


def inner_raise(x):
    raise KeyError(x)


def test_escaping_exception_names_place_and_type(breaks):
    signal = breaks(gb.EXCEPTION_ESCAPES, raises_below, 3)
    assert "KeyError leaves raises_below()" in signal.detail
    assert signal.location.function == "inner_raise"
    assert signal.location.text == "raise KeyError(x)"


def test_user_stack_goes_from_the_root_inwards(translation):
    def lower():
        class A:
            pass

    def upper():
        return lower()

    run = translation(upper)
    with pytest.raises(GraphBreak) as caught:
        run.tx.translate()
    signal = caught.value
    assert [place.function for place in signal.user_stack] == ["upper", "lower"]
    assert signal.location.text == "class A:"
    assert signal.location.line == lower.__code__.co_firstlineno + 1
    assert run.tx.instructions[run.tx.current.index].opname == "CALL"


def test_stopping_before_the_broken_step(translation):
    def f(a, b):
        c = [a]
        c.append(b)
        for x in c:

            class A:
                pass

        return c

    first = translation(f, 1, 2)
    with pytest.raises(GraphBreak):
        first.tx.translate()
    again = translation(f, 1, 2)
    outcome = again.tx.translate(first.tx.broken_step)
    assert isinstance(outcome, Stopped)
    assert outcome.instruction.opname == "LOAD_BUILD_CLASS"
    assert set(again.tx.locals) == {"a", "b", "c", "x"}
    assert again.tx.steps == first.tx.broken_step
    assert again.capture.frames.depth == 0


def test_stopping_at_the_first_step(translation):
    outcome = translation(lambda: 1).tx.translate(0)
    assert isinstance(outcome, Stopped)
    assert outcome.instruction.index == 0


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="CALL_KW takes the names from the stack")
def test_stopping_before_a_call_keeps_keyword_names(translation):
    def f():
        return dict(a=1)

    run = translation(f)
    while run.tx.instructions[run.tx.ip].opname != "CALL":
        run.tx.step()
    assert run.tx.kw_names == ("a",)


def test_instruction_limit(breaks):
    def f():
        n = 0
        while True:
            n += 1

    signal = breaks(gb.TOO_DEEP, f, instruction_limit=1000)
    assert "1000 instructions" in signal.detail


def test_depth_limit(breaks):
    def f(n):
        return f(n + 1)

    signal = breaks(gb.TOO_DEEP, f, 0, inline_depth_limit=30)
    assert "30 nested calls" in signal.detail


def test_default_depth_is_reached_without_exhausting_the_own_stack(same, breaks):
    def f(n):
        return 0 if n == 0 else 1 + f(n - 1)

    same(f, 150)
    breaks(gb.TOO_DEEP, f, 1000)


def test_unused_arguments_stay_lazy(translation):
    def f(a, b):
        c = b
        return a

    run = translation(f, 1, [2])
    assert run.result() == 1
    assert {g.source for g in run.capture.guards} - {"G"} == {"L['a']"}


def test_deterministic(translation):
    def f(n):
        return [x for x in range(n) if x % 2]

    runs = [translation(f, 20) for _ in range(2)]
    assert [r.result() for r in runs] == [list(range(1, 20, 2))] * 2
    assert runs[0].tx.steps == runs[1].tx.steps
    assert runs[0].capture.frames.instructions == runs[1].capture.frames.instructions
