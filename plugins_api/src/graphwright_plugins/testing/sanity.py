"""What would make a backend slow, as counts: no time is measured, so that no test depends on the machine."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any, ClassVar, Final

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from graphwright_plugins.resolve import ResolvedBackend

from .base import ConformanceTests, call
from .program import Program, compile_program, compile_symbolic
from .stand_ins import StandIn
from .themes import Theme

TO_HOST: Final = frozenset(
    {"cpu", "numpy", "__array__", "tolist", "item", "__bool__", "__float__", "__int__", "__index__"}
)
"""Methods of tensors that bring values to the host, and wait for the device."""


def _chain(x: Any, y: Any) -> tuple[Any, ...]:
    return ((x @ y).relu() + x).sum(0), x * 2


PROGRAM = Program("chain", _chain, lambda: (torch.randn(8, 8), torch.randn(8, 8)))


class PerformanceSanityTests(ConformanceTests):
    """Calling a compiled graph does no work that has no part in it."""

    theme = Theme.PERFORMANCE_SANITY
    max_python_calls: ClassVar[int] = 150
    """How many Python functions one call of a compiled graph may call, whatever its size: the overhead of a call."""

    def test_no_host_copy(self, resolved: ResolvedBackend) -> None:
        """A call brings no tensor to the host: neither by a method that does, nor by `to`."""
        inputs = PROGRAM.inputs(self.device)
        compiled = compile_program(resolved, PROGRAM, inputs)
        call(compiled, inputs)
        with _HostCopies() as copies:
            call(compiled, inputs)
        assert not copies.found, f"a call brings tensors to the host by {', '.join(sorted(copies.found))}"

    def test_outputs_on_device(self, resolved: ResolvedBackend) -> None:
        """Outputs are on the inputs' device."""
        inputs = PROGRAM.inputs(self.device)
        for output in call(compile_program(resolved, PROGRAM, inputs), inputs):
            assert output.device.type == torch.device(self.device).type, f"an output is on {output.device}"

    def test_compiled_once(self, resolved: ResolvedBackend) -> None:
        """Calls with the same sizes compile nothing."""
        counting = StandIn(resolved)
        inputs = PROGRAM.inputs(self.device)
        compiled = compile_program(replace(resolved, backend=counting), PROGRAM, inputs)
        call(compiled, inputs)
        before = counting.compiled
        for seed in range(4):
            call(compiled, PROGRAM.inputs(self.device, seed))
        assert counting.compiled == before, f"{counting.compiled - before} graphs were compiled by four more calls"

    def test_compiled_once_for_sizes(self, resolved: ResolvedBackend) -> None:
        """Nor do calls with other sizes, where sizes are symbolic."""
        self.require(resolved, "dynamic_shapes")
        counting = StandIn(resolved)
        program = Program("rows", lambda x: (x * 2 + 1, x.sum(0)), lambda: (torch.randn(4, 3),))
        compiled = compile_symbolic(replace(resolved, backend=counting), program, program.inputs(self.device), [0])
        call(compiled, [torch.randn(4, 3, device=self.device)])
        before = counting.compiled
        for rows in (5, 9, 2):
            call(compiled, [torch.randn(rows, 3, device=self.device)])
        assert counting.compiled == before, f"{counting.compiled - before} graphs were compiled for three more sizes"

    def test_python_calls(self, resolved: ResolvedBackend) -> None:
        """One call of a compiled graph calls few Python functions, without gradients and with them."""
        inputs = PROGRAM.inputs(self.device)
        compiled = compile_program(resolved, PROGRAM, inputs)
        for _ in range(3):
            call(compiled, inputs)
        called = _python_calls(compiled, inputs)
        total = sum(called.values())
        worst = ", ".join(f"{name} {count} times" for name, count in called.most_common(5))
        assert total <= self.max_python_calls, (
            f"{total} calls of Python functions where {self.max_python_calls} may be: {worst}"
        )


class _HostCopies(TorchFunctionMode):
    """Notes what brings tensors to the host."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Note the function, and call it."""
        name = str(resolve_name(func) or getattr(func, "__name__", "")).rpartition(".")[2]
        result = func(*args, **(kwargs or {}))
        if name in TO_HOST or (name == "to" and _left_device(args, result)):
            self.found.add(name)
        return result


def _left_device(args: Sequence[Any], result: Any) -> bool:
    return isinstance(result, torch.Tensor) and result.device.type == "cpu" and args[0].device.type != "cpu"


def _python_calls(compiled: Callable[..., Any], inputs: Sequence[Any]) -> Counter[str]:
    """How often one call calls each Python function."""
    called: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            called[frame.f_code.co_qualname] += 1

    previous = sys.getprofile()
    sys.setprofile(note)
    try:
        compiled(*inputs)
    finally:
        sys.setprofile(previous)
    return called
