"""A graph break deep in a chain of inlined calls costs one more graph, and nothing that was captured around it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch import nn

import graphwright
from graphwright.testing import CompileCounter


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, k: int = 1) -> torch.Tensor:
        y = self.layer(x) * k
        print("deep", tuple(y.shape))
        return y * 2


def middle(module: nn.Module, x: torch.Tensor, *, w: int = 3) -> torch.Tensor:
    a = x + 1

    def scaled(value: torch.Tensor) -> torch.Tensor:
        return value * w

    return scaled(module(a, k=2)) + a


def outer(module: nn.Module, x: torch.Tensor) -> Any:
    u = x.sin()
    with torch.no_grad():
        v = middle(module, u, w=4)
        inside = torch.is_grad_enabled()
    return v + u, inside, torch.is_grad_enabled()


def test_each_level_goes_on_in_a_resume_function() -> None:
    counter, module, x = CompileCounter(), Deep(), torch.ones(2, 2, requires_grad=True)
    expected = outer(module, x)
    compiled = graphwright.compile(outer, backend=counter)
    for _ in range(3):
        got = compiled(module, x)
        torch.testing.assert_close(got[0], expected[0])
        assert got[1:] == expected[1:]
        assert got[0].requires_grad == expected[0].requires_grad
    # Up to the break all three frames are one graph; each has one more for its rest.
    assert counter.frame_count == 4


def test_state_set_around_the_break_does_not_spoil_the_guards() -> None:
    def stateful(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * 2
            print("break")
            y = y + 1
        return y * x

    counter, x = CompileCounter(), torch.ones(2, requires_grad=True)
    compiled = graphwright.compile(stateful, backend=counter)
    for _ in range(3):
        assert compiled(x).requires_grad
    assert counter.frame_count == 2


def test_an_exception_from_the_rest_of_the_inner_call_reaches_the_outer_handler() -> None:
    def failing(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        print("break")
        raise ValueError(f"boom {tuple(y.shape)}")

    def handling(x: torch.Tensor) -> Any:
        log: list[str] = []
        try:
            failing(x)
        except ValueError as error:
            log.append(str(error))
        finally:
            log.append("finally")
        return x * 3, log

    x = torch.ones(2)
    compiled = graphwright.compile(handling, backend="eager")
    for _ in range(2):
        result, log = compiled(x)
        assert log == ["boom (2,)", "finally"]
        assert torch.equal(result, x * 3)


def test_a_backend_that_needs_values_leaves_the_frame_to_eager() -> None:
    def backend(graph: torch.fx.GraphModule, example_inputs: Any) -> Any:
        with torch._subclasses.FakeTensorMode() as mode:
            mode.from_tensor(torch.ones(())).item()

    compiled = graphwright.compile(lambda x: x + 1, backend=backend)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


def test_a_loop_that_comes_back_to_the_call_in_eager() -> None:
    """The inlined call breaks; its caller's `with` swallows what comes next, and the loop calls it anew."""

    class Swallow:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *exception: object) -> bool:
            return True

    def helper(t: torch.Tensor) -> torch.Tensor:
        print("break")
        return t * 2

    @graphwright.disable
    def fail(text: str) -> None:
        raise KeyError(text)

    def looping(x: torch.Tensor, last: bool, done: list[int]) -> torch.Tensor:
        for i in range(3):
            with Swallow():
                fail(str(helper(x).dtype))
            with contextlib.nullcontext(x.abs()):
                done.append(i)
                if last:
                    raise TypeError("a")
        return x + len(done)

    def raising(x: torch.Tensor) -> None:
        for _ in range(2):
            with Swallow():
                fail(str(helper(x).dtype))
            with contextlib.nullcontext(x.abs()):
                raise TypeError("b")

    x = torch.ones(2)
    compiled = graphwright.compile(looping, backend="eager")
    for last, count in ((False, 3), (True, 1), (False, 3)):
        done: list[int] = []
        if last:
            with pytest.raises(TypeError, match="a"):
                compiled(x, last, done)
        else:
            assert torch.equal(compiled(x, last, done), x + 3)
        assert done == list(range(count))
    with pytest.raises(TypeError, match="b"):
        graphwright.compile(raising, backend="eager")(x)
