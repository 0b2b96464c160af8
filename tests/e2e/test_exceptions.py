"""Exceptions around graph breaks: raised, caught, chained, and their tracebacks."""

from __future__ import annotations

import os
import traceback
from typing import Any

import pytest
import torch

import graphwright
from graphwright.exc import TorchRuntimeError
from graphwright.testing import assert_captures

pytestmark = pytest.mark.e2e
PACKAGE = os.path.dirname(graphwright.__file__)


def same(fn, *args, **expected):
    expected.setdefault("graphs", None)
    expected.setdefault("breaks", None)
    return assert_captures(fn, *args, **expected)


def ones():
    return torch.ones(3)


def chain_of(error):
    """Type, arguments, cause, context and notes of an exception and of those it hangs on."""
    if error is None:
        return None
    inner = [chain_of(each) for each in getattr(error, "exceptions", ())]
    own = (type(error).__name__, [str(a) for a in error.args], error.__suppress_context__)
    return own, chain_of(error.__cause__), chain_of(error.__context__), getattr(error, "__notes__", None), inner


def raised_by(call, *args):
    try:
        call(*args)
    except Exception as error:
        return error
    return None


def same_chain(fn, *args):
    want = raised_by(fn, *args)
    compiled = graphwright.compile(fn, backend="eager")
    for _ in range(2):
        assert chain_of(raised_by(compiled, *args)) == chain_of(want)
    assert want is not None


# ------------------------------------------------------------------ raised and caught


def test_raised_and_caught_in_captured_code_is_one_graph():
    def fn(x):
        y = x * 2
        try:
            if y.dim() == 1:
                raise ValueError("one", y.dim())
        except ValueError as error:
            y = y + error.args[1]
        else:
            y = y - 100
        finally:
            y = y * 3
        return y

    same(fn, ones(), graphs=1, breaks=())


def test_raised_through_frames():
    def low(x):
        if x.dim() == 1:
            raise LookupError("low")
        return x

    def middle(x):
        try:
            return low(x * 2)
        finally:
            x.add_(1)

    def fn(x):
        try:
            return middle(x)
        except LookupError as error:
            return x * 3, str(error)

    same(fn, ones(), graphs=1, breaks=())


def test_raised_in_eager_and_caught_after_a_break():
    def fn(x):
        y = x * 2
        try:
            print("before")
            y = y + 1
            int("no number")
            y = y + 100
        except ValueError as error:
            y = y * len(error.args)
        return y

    same(fn, ones())


def test_a_break_in_handler_else_and_finally():
    def fn(x, fail):
        story = []
        try:
            story.append("try")
            if fail:
                raise KeyError("k")
        except KeyError as error:
            print("handler", error)
            story.append(repr(error))
            x = x + 1
        else:
            print("else")
            x = x + 2
        finally:
            print("finally")
            story.append("finally")
            x = x * 3
        return x, story

    same(fn, ones(), True)
    same(fn, ones(), False)


def test_the_order_of_finally_blocks():
    def fn(x):
        story = []
        for i in range(3):
            try:
                try:
                    if i == 1:
                        continue
                    print("body", i)
                    if i == 2:
                        raise IndexError(i)
                    x = x + 1
                finally:
                    story.append(("inner", i))
                    print("inner", i)
            except IndexError as error:
                story.append(("caught", error.args))
                break
            finally:
                story.append(("outer", i))
        return x, story

    same(fn, ones())


def test_a_finally_that_returns_over_a_return():
    def fn(x):
        try:
            print("a")
            return x * 2
        finally:
            print("b")
            x = x + 1
            if x.dim() == 1:
                return x

    same(fn, ones())


def test_the_exception_variable_is_unbound_after_its_handler():
    def fn(x):
        try:
            raise ValueError("a")
        except ValueError as error:
            said = str(error)
            print(said)
        try:
            error  # noqa: F821  unbound is what is tested
        except UnboundLocalError:
            x = x + 1
        return x, said

    same(fn, ones())


def test_reraising_after_a_break():
    def fn(x):
        try:
            try:
                raise KeyError("inside")
            except KeyError:
                print("seen")
                raise
        except KeyError as error:
            return x + 1, error.args

    same(fn, ones())


# ------------------------------------------------------------------ leaving the function


def test_causes_and_contexts_are_kept():
    def raise_from(x):
        y = x * 2
        try:
            raise KeyError("first")
        except KeyError as error:
            print("between")
            raise ValueError("second", y.dim()) from error

    def raise_in_handler(x):
        try:
            {}["missing"]
        except KeyError:
            x = x + 1
            raise TypeError("in handler")

    def raise_from_none(x):
        try:
            x.no_such_thing
        except AttributeError:
            raise RuntimeError("hidden") from None

    def in_finally(x):
        try:
            raise KeyError("first")
        finally:
            print("finally")
            {}["second"]

    for fn in (raise_from, raise_in_handler, raise_from_none, in_finally):
        same_chain(fn, ones())
        graphwright.reset()


def test_notes_and_attributes_are_kept():
    class Special(Exception):
        def __init__(self, code):
            super().__init__(f"code {code}")
            self.code = code

    def fn(x):
        y = x * 2
        try:
            raise Special(7)
        except Special as error:
            error.add_note("seen")
            error.extra = y.dim()
            print("noted")
            raise

    same_chain(fn, ones())
    error = raised_by(graphwright.compile(fn, backend="eager"), ones())
    assert (error.code, error.extra) == (7, 1)


def test_exception_groups():
    def caught(x):
        try:
            x = x * 2
            raise ExceptionGroup("several", [ValueError("a"), KeyError("b"), ExceptionGroup("in", [ValueError("c")])])
        except* ValueError as group:
            x = x + len(group.exceptions)
        except* KeyError as group:
            x = x * 10
        return x

    def escapes(x):
        try:
            x = x * 2
            raise ExceptionGroup("several", [ValueError("a"), KeyError("b")])
        except* ValueError:
            print("values")
            x = x + 1

    same(caught, ones())
    same_chain(escapes, ones())


def test_what_was_done_before_an_exception_stays_done():
    def fn(x, items):
        items.append(x * 2)
        x.add_(1)
        print("before")
        items.append(x * 3)
        x.mul_(2)
        raise ValueError("late")

    same(fn, ones(), [])


# ------------------------------------------------------------------ tracebacks


def helper(y):
    z = y + 1
    raise ValueError("here")


def through_helper(x):
    y = x * 2
    print("before")
    return helper(y)


def missing_key(x):
    y = x * 2
    table = {"a": y}
    return table["b"] + y


def in_eager_part(x):
    y = x * 2
    int("no number")
    return y


def in_resume_function(x):
    y = x * 2
    print("one")
    y = y + 1
    print("two")
    y = y[0, 0]
    return y


def shape_error(x):
    y = x * 2
    z = y @ torch.ones(5, 6)
    return z


def in_loop(x):
    for i in range(3):
        print(i)
        x = x + 1
        if i == 1:
            raise KeyError(i)


def in_with_block(x):
    with torch.no_grad():
        y = x * 2
        print("inside")
        raise OSError("with")


PROGRAMS = [through_helper, missing_key, in_eager_part, in_resume_function, shape_error, in_loop, in_with_block]


def user_lines(error):
    """Line numbers and lines of the traceback that are in this file, and the files that are not."""
    found = traceback.extract_tb(error.__traceback__)
    here = [(frame.lineno, frame.line) for frame in found if frame.filename == __file__ and frame.name != "raised_by"]
    return here, [frame.filename for frame in found if frame.filename != __file__]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_a_traceback_shows_the_users_lines_and_nothing_of_ours(fn, capsys):
    want = raised_by(fn, ones())
    compiled = graphwright.compile(fn, backend="eager")
    for _ in range(2):
        got = raised_by(compiled, ones())
        assert type(got) is type(want)
        assert got.args == want.args
        wanted_lines, wanted_others = user_lines(want)
        lines, others = user_lines(got)
        assert lines[-1] == wanted_lines[-1]
        assert set(wanted_lines) <= set(lines)
        assert [name for name in others if name.startswith(PACKAGE) or name.startswith("<eval_with_key>")] == []
        assert set(others) <= set(wanted_others)


def test_the_traceback_of_a_caught_exception():
    def fn(x):
        y = x * 2
        try:
            print("before")
            helper(y)
        except ValueError as error:
            return y, [frame.line for frame in traceback.extract_tb(error.__traceback__)]

    want, got = fn(ones()), graphwright.compile(fn, backend="eager")(ones())
    assert got[1][-1] == want[1][-1] == 'raise ValueError("here")'


# ------------------------------------------------------------------ errors of operations


BAD_OPERATIONS = {
    "matmul": lambda x: (x * 2) @ torch.ones(5, 6),
    "broadcast": lambda x: x + torch.ones(4),
    "view": lambda x: (x + 1).view(7),
    "index": lambda x: x.relu()[5],
    "cat": lambda x: torch.cat([x, torch.ones(2, 2)]),
    "dtype": lambda x: torch.nn.functional.embedding(x, torch.ones(3, 3)),
    "linear": lambda x: torch.nn.functional.linear(x, torch.ones(2, 2)),
    "method": lambda x: x.squeeze(4),
}


@pytest.mark.parametrize("name", BAD_OPERATIONS)
def test_an_operation_that_fails_raises_what_eager_raises(name):
    same(BAD_OPERATIONS[name], ones())


@pytest.mark.parametrize("name", BAD_OPERATIONS)
def test_under_fullgraph_the_line_is_named(name):
    fn = BAD_OPERATIONS[name]
    with pytest.raises(TorchRuntimeError) as raised:
        graphwright.compile(fn, backend="eager", fullgraph=True)(ones())
    assert f"{__file__}:{fn.__code__.co_firstlineno}" in str(raised.value)
    assert raised.value.__cause__ is not None
    with pytest.raises(type(raised.value.__cause__)):
        fn(ones())


def test_an_operation_that_fails_can_be_caught():
    def fn(x):
        y = x * 2
        try:
            y = y @ torch.ones(5, 6)
        except RuntimeError as error:
            y = y + len(error.args)
        return y

    same(fn, ones())


def test_a_failure_that_only_values_show():
    def fn(x, index):
        y = x * 2
        try:
            z = y[index]
        except IndexError:
            z = y * 10
        return z + 1

    same(fn, ones(), torch.tensor([7]))


def test_an_operation_that_fails_while_an_exception_is_handled_has_it_as_context() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, table: dict[str, Any], i: int) -> torch.Tensor:
        try:
            table["missing"]
        except KeyError:
            table["z"] = y[torch.tensor([i])]
        x *= 2
        return x + y.sum()

    compiled = graphwright.compile(program, backend="eager")
    for i in (0, 5, 1):
        for function in (program, compiled):
            x, table = torch.ones(3), {}
            if i < 3:
                assert function(x, torch.ones(3), table, i).tolist() == [5.0, 5.0, 5.0]
            else:
                with pytest.raises(IndexError) as caught:
                    function(x, torch.ones(3), table, i)
                assert repr(caught.value.__context__) == "KeyError('missing')"
                assert x.tolist() == [1.0, 1.0, 1.0]
                assert not table


def test_a_capture_leaves_the_traceback_of_what_is_being_handled() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        graphwright.graph_break()
        return y * 2

    compiled = graphwright.compile(program, backend="eager")
    seen = []
    try:
        1 / 0
    except ZeroDivisionError as error:
        compiled(torch.ones(2))
        seen.append(error.__traceback__)
    assert seen[0] is not None
