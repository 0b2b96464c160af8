"""The call stack and the exception being handled."""

import sys

import pytest
import torch

from graphwright import graph_breaks as gb
from graphwright.exc import GraphBreak
from graphwright.symbolic.frame_state import CallStack, HandledException
from graphwright.variables.constant import ConstantVariable


class FrameStub:
    def __init__(self, function, parent=None, line=None):
        self.code = function.__code__
        self.parent = parent
        self.line = line or self.code.co_firstlineno


def user():
    return 1


def outer_user():
    return 2


def test_depth_limit():
    stack = CallStack(100, 2)
    stack.enter(FrameStub(user))
    stack.enter(FrameStub(user))
    with pytest.raises(GraphBreak) as caught:
        stack.enter(FrameStub(user))
    assert caught.value.kind is gb.TOO_DEEP


def test_enter_and_leave():
    stack = CallStack(100, 10)
    first = FrameStub(outer_user)
    outer = stack.enter(first)
    inner = stack.enter(FrameStub(user, first))
    assert (stack.depth, stack.location().function) == (2, "user")
    stack.leave(inner)
    assert (stack.depth, stack.current) == (1, first)
    stack.leave(outer)
    assert (stack.depth, stack.current) == (0, None)


def test_location_passes_over_torch():
    stack = CallStack(100, 10)
    first = FrameStub(user)
    stack.enter(first)
    stack.enter(FrameStub(torch.nn.Linear.forward, first))
    assert stack.location().function == "user"
    assert stack.location().text == "def user():"
    assert [p.function for p in stack.user_stack()] == ["user"]


def test_location_when_all_is_torch():
    stack = CallStack(100, 10)
    stack.enter(FrameStub(torch.nn.Linear.forward))
    assert stack.location().function == "forward"
    assert "linear.py" in stack.stack_trace()


def test_location_without_frames():
    assert CallStack(1, 1).location().line == 0


def test_stack_trace_reads_like_a_traceback():
    stack = CallStack(100, 10)
    first = FrameStub(outer_user)
    stack.enter(first)
    stack.enter(FrameStub(user, first))
    text = stack.stack_trace()
    assert text.index("in outer_user") < text.index("in user")
    assert f'File "{__file__}", line {user.__code__.co_firstlineno}, in user\n    def user():\n' in text


def test_topmost_exception_is_looked_for_outwards():
    outer = HandledException(ConstantVariable(1))
    inner = HandledException(None, outer)
    assert inner.topmost() is outer.value
    inner.value = ConstantVariable(2)
    assert inner.topmost() is inner.value
    assert HandledException().topmost() is None
    assert sys.exc_info() == (None, None, None)
