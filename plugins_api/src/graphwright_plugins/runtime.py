"""What a compiled graph may ask at a call: the device, its current stream, a pool of memory, which inputs moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import fx

from .fake import device_of
from .signature import shared_of, signature_of

_POOL: Final = "graphwright_plugins.graph_pool"


class RuntimeContext:
    """Answers at each call of one compiled graph; made by `runtime_of` when it is compiled.

    It holds no input, and may be asked by several threads at once. Nothing is done for a backend that has none made.

    Args:
        device: The device that the graph computes on; None for a graph without tensors.
        static_inputs: The inputs that are expected at the same address in each call, by position.
        device_module: What has `current_stream` and `graph_pool_handle`; by default torch's own module for the device,
            such as `torch.cuda`. Tests give what stands in for it.
        shared: What the contexts of one captured graph have in common.
    """

    def __init__(
        self,
        device: torch.device | None,
        static_inputs: Sequence[int] = (),
        *,
        device_module: Any = None,
        shared: dict[str, Any] | None = None,
    ) -> None:
        self.device: Final = device
        """The device that the graph computes on; None for a graph without tensors. What is allocated there by torch
        inside of a call (`torch.empty(..., device=runtime.device)`) comes from the allocator and the memory pool that
        are in use then."""
        self.static_inputs: Final = tuple(static_inputs)
        """The inputs that are expected at the same address in each call, by position: parameters, buffers, and what is
        marked by `mark_static_address`. Those that the framework copies on the way to the graph are not among them."""
        self._module = device_module if device_module is not None else _module_of(device)
        self._shared: dict[str, Any] = {} if shared is None else shared

    def stream(self) -> Any:
        """The stream that is the device's current one, in this thread and at this moment; None where it has none.

        That is where inputs are ready, and where the caller uses the outputs. A graph that runs on another stream waits
        for this one before, has this one wait after it, and says to the allocator what it used (`record_stream`).
        """
        current = getattr(self._module, "current_stream", None)
        return None if current is None else current(self.device)

    def graph_pool(self) -> Any:
        """The handle of a memory pool for recordings, as `torch.cuda.graph` takes it; None where the device has none.

        The forward and the backward graph of one captured graph have the same one. Torch gives a pool up with the last
        recording in it; a backend that frees all of them and records again takes a handle of its own.
        """
        make = getattr(self._module, "graph_pool_handle", None)
        if make is None:
            return None
        if _POOL not in self._shared:
            self._shared.setdefault(_POOL, make())  # atomic, should two threads come here
        return self._shared[_POOL]

    def addresses(self, inputs: Sequence[Any]) -> tuple[int, ...]:
        """Where `static_inputs` lie in a call, in their order: equal exactly where none of them moved.

        One compiled graph may serve several modules in turn. So compare with the addresses that something was made for,
        or make them its key; those of the call before may be another module's.
        """
        return tuple([inputs[index].data_ptr() for index in self.static_inputs])

    def moved(self, before: Sequence[int], inputs: Sequence[Any]) -> tuple[int, ...]:
        """Which of `static_inputs` lie elsewhere than they did, by position among the inputs.

        Args:
            before: What `addresses` gave.
            inputs: The inputs of this call.
        """
        now = zip(self.static_inputs, before, self.addresses(inputs), strict=True)
        return tuple(index for index, old, new in now if old != new)


def runtime_of(
    graph: fx.GraphModule, example_inputs: Sequence[Any] | None = None, *, device_module: Any = None
) -> RuntimeContext:
    """What the compiled form of a graph may ask at its calls; for `compile` to make and hand to what it returns.

    Args:
        graph: The graph, as `compile` was given it.
        example_inputs: Its inputs on fakes, as `compile` was given them.
        device_module: What stands in for torch's own module for the device, in tests.

    Raises:
        UnsupportedGraph: The graph has tensors on several devices; the message names a node for each.
        ValueError: Nothing says what the graph's inputs are; see `signature_of`.
    """
    static = [
        index
        for index, entry in enumerate(signature_of(graph, example_inputs))
        if entry.static_address and entry.tensor is not None and entry.tensor.layout is torch.strided
    ]
    device = device_of(graph, example_inputs)
    return RuntimeContext(device, static, device_module=device_module, shared=shared_of(graph))


def _module_of(device: torch.device | None) -> Any:
    try:
        return None if device is None else torch.get_device_module(device)
    except RuntimeError:  # a device type without a module of its own, as "meta"
        return None
