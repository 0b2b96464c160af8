"""A backend whose compiled graphs ask, call by call, where they run and which weights moved."""

import gc
import weakref

import torch

import graphwright
from graphwright_plugins import Capabilities, runtime_of


class Streams:
    """Stands in for a device's module: the stream is whatever a test says."""

    current = "first"

    def current_stream(self, device):
        return (device.type, self.current)


class Replaying:
    """Pretends to record: a recording serves the weights at the addresses that it was made for."""

    name = "replaying"
    capabilities = Capabilities()

    def __init__(self):
        self.streams = Streams()
        self.made = 0
        self.ran_on = []

    def compile(self, graph, example_inputs, options):
        runtime = runtime_of(graph, example_inputs, device_module=self.streams)
        forward, recordings = graph.forward, {}

        def call(*inputs):
            self.ran_on.append(runtime.stream())
            key = runtime.addresses(inputs)
            if key not in recordings:
                self.made += 1
                recordings[key] = self.made
            return forward(*inputs)

        return call


def test_each_module_of_a_class_has_its_recording_and_a_replaced_weight_another():
    backend = Replaying()
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    @graphwright.compile(backend=backend, fullgraph=True)
    def run(module, x):
        return module(x)

    x = torch.ones(2, 3)
    for module in (first, second, first, second):
        torch.testing.assert_close(run(module, x), module(x))
    assert backend.made == 2
    first.weight = torch.nn.Parameter(torch.ones(3, 3))
    torch.testing.assert_close(run(first, x.clone()), first(x))
    assert backend.made == 3


def test_a_marked_input_counts_and_any_other_does_not():
    backend = Replaying()
    run = graphwright.compile(lambda x, state: x + state, backend=backend)
    state = torch.zeros(3)
    graphwright.mark_static_address(state)
    for _ in range(3):
        run(torch.ones(3), state)
    assert backend.made == 1


def test_the_stream_is_the_one_of_each_call():
    backend = Replaying()
    run = graphwright.compile(lambda x: x + 1, backend=backend)
    run(torch.ones(3))
    backend.streams.current = "second"
    run(torch.ones(3))
    assert backend.ran_on == [("cpu", "first"), ("cpu", "second")]


def test_the_context_keeps_no_input():
    run = graphwright.compile(lambda module, x: module(x), backend=Replaying())
    module, x = torch.nn.Linear(3, 3), torch.ones(2, 3)
    run(module, x)
    weight, given = weakref.ref(module.weight), weakref.ref(x)
    del module, x
    gc.collect()
    assert (weight(), given()) == (None, None)
