"""Calls become part of the calling frame."""

import sys

from graphwright.symbolic.inline import enough_recursion


def test_recursion_limit_is_raised_and_restored():
    before = sys.getrecursionlimit()
    with enough_recursion(200):
        assert sys.getrecursionlimit() > before
    assert sys.getrecursionlimit() == before


def test_globals_are_those_of_the_callee(same):
    scope = {"NAME": "theirs"}
    exec("def theirs():\n    return NAME", scope)
    theirs = scope["theirs"]

    def f():
        return theirs(), NAME

    same(f)


NAME = "mine"


def test_arguments_are_not_looked_at(translation):
    def ignore(a, b):
        return b

    def f(a, b):
        return ignore(a, b)

    run = translation(f, [1], 2)
    assert run.result() == 2
    assert not any(g.source.startswith("L['a']") for g in run.capture.guards)


def test_captures_that_overlap_leave_the_recursion_limit() -> None:
    """Threads begin and end in any order; the limit is one for all of them."""
    limit = sys.getrecursionlimit()
    first, second = enough_recursion(200), enough_recursion(100)
    first.__enter__()
    raised = sys.getrecursionlimit()
    second.__enter__()
    assert sys.getrecursionlimit() == raised > limit
    first.__exit__(None, None, None)
    assert sys.getrecursionlimit() == raised
    second.__exit__(None, None, None)
    assert sys.getrecursionlimit() == limit
