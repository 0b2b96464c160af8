"""What a compiled graph may ask at its calls, with a device that stands in for one with streams."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import fx

from graphwright_plugins import (
    Capabilities,
    GraphForm,
    RuntimeContext,
    UnsupportedGraph,
    aot_compile,
    resolve_backend,
    run_in_eager,
    runtime_of,
)
from graphwright_plugins.testing import trace


class FakeDevice:
    """A device module with a stream for each thread and pools that are numbered."""

    def __init__(self) -> None:
        self.pools = 0

    def current_stream(self, device: torch.device) -> str:
        return f"{device} {threading.get_ident()}"

    def graph_pool_handle(self) -> tuple[int, int]:
        self.pools += 1
        return (0, self.pools)


def test_streams_are_those_of_the_calling_thread() -> None:
    runtime = RuntimeContext(torch.device("cpu"), device_module=FakeDevice())
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(runtime.stream()))
    thread.start()
    thread.join()
    assert runtime.stream() == f"cpu {threading.get_ident()}"
    assert seen != [runtime.stream()]


def test_a_device_without_streams_and_pools_has_none() -> None:
    assert RuntimeContext(torch.device("meta")).stream() is None
    assert RuntimeContext(torch.device("cpu")).graph_pool() is None
    assert RuntimeContext(None).stream() is None
    assert RuntimeContext(None).graph_pool() is None


def test_torchs_own_module_is_asked() -> None:
    assert isinstance(RuntimeContext(torch.device("cpu")).stream(), torch.cpu.Stream)


def test_weights_are_static_and_known_by_their_address() -> None:
    weight, x = torch.nn.Parameter(torch.ones(3)), torch.ones(3)
    runtime = runtime_of(trace(lambda x, w: (x * w,)), [x, weight])
    assert runtime.device == torch.device("cpu")
    assert runtime.static_inputs == (1,)
    before = runtime.addresses([x, weight])
    assert before == (weight.data_ptr(),)
    assert runtime.moved(before, [torch.ones(3), weight]) == ()
    other = torch.nn.Parameter(torch.ones(3))
    assert runtime.moved(before, [x, other]) == (1,)
    assert runtime.addresses([x, other]) != before


def test_a_graph_on_several_devices_has_no_context() -> None:
    graph = trace(lambda x, y: (x + 1, y + 1))
    with pytest.raises(UnsupportedGraph, match="several devices"):
        runtime_of(graph, [torch.ones(3), torch.ones(3, device="meta")])


def test_forward_and_backward_have_one_pool_and_other_graphs_another() -> None:
    device, found = FakeDevice(), []

    def compiler(graph: fx.GraphModule, example_inputs: Any) -> Any:
        found.append(runtime_of(graph, example_inputs, device_module=device))
        return run_in_eager(graph, example_inputs)

    for _ in range(2):
        x = torch.ones(3, requires_grad=True)
        (y,) = aot_compile(trace(lambda x: (x.sin(),)), [x], compiler)(x)
        y.sum().backward()
    forward, backward, *others = found
    assert device.pools == 0  # nobody asked so far
    assert forward.graph_pool() == backward.graph_pool() == (0, 1)
    assert {other.graph_pool() for other in others} == {(0, 2)}


class Contiguous:
    """A backend that wants contiguous inputs, and asks which stay where they are."""

    name = "contiguous"
    capabilities = Capabilities()
    graph_form = GraphForm(contiguous=True)

    def __init__(self) -> None:
        self.stayed: list[bool] = []

    def compile(self, graph: fx.GraphModule, example_inputs: Any, options: Any) -> Any:
        runtime, forward = runtime_of(graph, example_inputs), graph.forward
        self.static = runtime.static_inputs
        addresses: list[tuple[int, ...]] = []

        def call(*inputs: Any) -> Any:
            addresses.append(runtime.addresses(inputs))
            self.stayed.append(addresses[0] == addresses[-1])
            return forward(*inputs)

        return call


def test_what_the_framework_copies_at_each_call_is_not_static() -> None:
    backend = Contiguous()
    straight, turned = torch.nn.Parameter(torch.ones(3, 2)), torch.nn.Parameter(torch.ones(2, 3).t())
    inputs = [straight, turned]
    with torch.no_grad():
        compiled = resolve_backend(backend).compile(trace(lambda v, w: (v + w,)), inputs)
        kept = [compiled(*inputs) for _ in range(3)]
    assert backend.static == (0,)
    assert backend.stayed == [True] * 3
    assert all(torch.equal(result, straight + turned) for (result,) in kept)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu_it_is_torchs_current_stream_and_a_pool_to_record_in() -> None:
    x = torch.ones(3, device="cuda")
    runtime = runtime_of(trace(lambda x: (x + 1,)), [x])
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert runtime.stream() == stream
    recording = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recording, pool=runtime.graph_pool()):
        y = x + 1
    recording.replay()
    assert recording.pool() == runtime.graph_pool()
    assert y.tolist() == [2.0] * 3
