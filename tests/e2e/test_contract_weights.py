"""Weights as constants under the framework's guard: frozen and refitted."""

import gc
import weakref

import pytest
import torch

import graphwright
import graphwright.events as events
from graphwright_plugins import Capabilities, GraphForm, NoOptions, Unsupported, UnsupportedGraph, run_in_eager


class Model(torch.nn.Module):
    def __init__(self, features=3):
        super().__init__()
        self.linear = torch.nn.Linear(features, features)
        self.register_buffer("shift", torch.randn(features))

    def forward(self, x):
        return torch.relu(self.linear(x)) + self.shift


class FreezingBackend:
    """Folds what it can of the constants when it compiles, so that a stale weight shows."""

    name = "freezing"
    capabilities = Capabilities()
    options_type = NoOptions

    def __init__(self, **form):
        self.graph_form = GraphForm(weights="frozen", **form)
        self.constants = []

    def compile(self, graph, example_inputs, options):
        held = {node.target: getattr(graph, node.target).clone() for node in graph.graph.find_nodes(op="get_attr")}
        self.constants.append(sorted(held))
        for name, value in held.items():
            delattr(graph, name)
            graph.register_buffer(name, value)
        return run_in_eager(graph, example_inputs) if self.graph_form.level == "aten" else graph.forward


class RefittingBackend(FreezingBackend):
    def __init__(self, **form):
        super().__init__(**form)
        self.graph_form = GraphForm(weights="refit", **form)
        self.updates = []

    def compile(self, graph, example_inputs, options):
        super().compile(graph, example_inputs, options)

        def call(*inputs):
            return graph(*inputs)

        call.graph = graph
        return call

    def update_weights(self, compiled, tensors):
        self.updates.append(sorted(tensors))
        for name, value in tensors.items():
            getattr(compiled.graph, name).copy_(value)


@pytest.fixture(params=["torch", "aten"])
def level(request):
    return request.param


@pytest.fixture
def told():
    with events.collected(events.FrozenWeightsChanged) as found:
        yield found


def test_weights_are_constants_and_a_change_gives_the_new_result(level, told):
    backend, model = FreezingBackend(level=level), Model()
    compiled = graphwright.compile(model, backend=backend)
    x = torch.randn(2, 3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        assert len(backend.constants[0]) == 3
        torch.testing.assert_close(compiled(x), model(x))
        assert len(backend.constants) == 1
        model.linear.weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))
        model.shift = torch.randn(3)
        torch.testing.assert_close(compiled(x), model(x))
        model.linear.weight.data = torch.randn(3, 3)
        torch.testing.assert_close(compiled(x), model(x))
    assert len(backend.constants) == 4
    assert [(event.how, event.action) for event in told] == [
        ("written to", "compiled anew"),
        ("replaced", "compiled anew"),
        ("written to", "compiled anew"),
    ]
    assert told[0].changed == ("L['self'].linear.weight",)
    assert told[0].function.endswith("Model.forward")


def test_each_instance_of_a_class_has_its_own_weights(level):
    backend, models = FreezingBackend(level=level), [Model() for _ in range(3)]
    compiled = [graphwright.compile(model, backend=backend) for model in models]
    x = torch.randn(2, 3)
    with torch.no_grad():
        for _ in range(3):
            for one, model in zip(compiled, models, strict=True):
                torch.testing.assert_close(one(x), model(x))
    assert len(backend.constants) == 3


def test_what_trains_has_its_weights_as_inputs(level):
    backend, model = FreezingBackend(level=level), Model()
    compiled = graphwright.compile(model, backend=backend)
    x = torch.randn(2, 3)
    compiled(x).sum().backward()
    assert model.linear.weight.grad is not None
    assert not any(backend.constants)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    assert any(backend.constants)


def test_weights_that_the_graph_changes_or_returns_stay_inputs(level):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))
            self.register_buffer("calls", torch.zeros(3))

        def forward(self, x):
            self.calls.add_(1)
            return x * self.calls, self.weight

    backend, model = FreezingBackend(level=level), Counting()
    compiled = graphwright.compile(model, backend=backend)
    with torch.no_grad():
        for number in (1.0, 2.0):
            result, weight = compiled(torch.ones(3))
            assert result.tolist() == [number] * 3
            assert weight is model.weight


def test_a_weight_that_keeps_changing_becomes_an_input(level, told):
    backend, model = FreezingBackend(level=level), Model()
    compiled = graphwright.compile(model, backend=backend)
    x = torch.randn(2, 3)
    with torch.no_grad():
        for _ in range(20):
            torch.testing.assert_close(compiled(x), model(x))
            model.linear.bias.add_(1)
    assert len(backend.constants) < 12
    assert [event.action for event in told][-1] == "weights as inputs"
    assert "times" in told[-1].reason


def test_nothing_keeps_the_weights_alive(level):
    backend, model = FreezingBackend(level=level), Model()
    compiled = graphwright.compile(model, backend=backend)
    with torch.no_grad():
        compiled(torch.randn(2, 3))
    gone = weakref.ref(model.linear.weight)
    del compiled, model
    gc.collect()
    assert gone() is None


def test_refitting_exchanges_weights_without_compiling(level, told):
    backend, model = RefittingBackend(level=level), Model()
    compiled = graphwright.compile(model, backend=backend)
    x = torch.randn(2, 3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        model.linear.weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))
        model.shift.add_(1)
        torch.testing.assert_close(compiled(x), model(x))
    assert len(backend.constants) == 1
    assert [len(update) for update in backend.updates] == [1, 1]
    assert set(backend.updates[0] + backend.updates[1]) <= set(backend.constants[0])
    assert [event.action for event in told] == ["refitted", "refitted"]


def test_a_refit_that_is_refused_compiles_anew(told):
    class Refusing(RefittingBackend):
        def update_weights(self, compiled, tensors):
            raise UnsupportedGraph("another shape of kernel")

    backend, model = Refusing(), Model()
    compiled = graphwright.compile(model, backend=backend)
    with torch.no_grad():
        compiled(torch.ones(2, 3))
        model.shift.add_(1)
        torch.testing.assert_close(compiled(torch.ones(2, 3)), model(torch.ones(2, 3)))
    assert len(backend.constants) == 2
    assert [(event.action, event.reason) for event in told] == [("compiled anew", "another shape of kernel")]


class Choosing(RefittingBackend):
    """Refits, and has a say in which nodes it gets."""

    refused = ""

    def supports(self, node, options):
        return Unsupported("no unit for it") if self.refused and self.refused in str(node.target) else None


def after_a_change(backend, **how):
    model = Model()
    compiled = graphwright.compile(model, backend=backend, **how)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(torch.ones(2, 3)), model(torch.ones(2, 3)))
            model.linear.bias.add_(1)
        torch.testing.assert_close(compiled(torch.ones(2, 3)), model(torch.ones(2, 3)))


def test_graphs_that_a_choosing_backend_has_whole_are_refitted(level, told):
    backend = Choosing(level=level)
    after_a_change(backend)
    assert len(backend.constants) == 1
    assert [event.action for event in told] == ["refitted", "refitted"]


def test_graphs_that_were_cut_are_compiled_anew(level, told):
    backend = Choosing(level=level)
    backend.refused = "relu"
    after_a_change(backend)
    assert not backend.updates
    assert [event.action for event in told] == ["compiled anew", "compiled anew"]
    assert all("the graph was cut" in event.reason for event in told)


def test_what_the_fallback_runs_is_not_refitted(told):
    class Failing(RefittingBackend):
        def compile(self, graph, example_inputs, options):
            raise UnsupportedGraph("not today")

    backend = Failing()
    after_a_change(backend, on_backend_error="fallback")
    assert not backend.updates
    assert all("the fallback backend runs" in event.reason for event in told)
    assert told


@pytest.mark.parametrize(("made", "what"), [(KeyError("arg1"), "raised KeyError: 'arg1'"), (3, "returned a int")])
def test_an_update_that_fails_compiles_anew_and_is_told(made, what, told):
    class Broken(RefittingBackend):
        def update_weights(self, compiled, tensors):
            if isinstance(made, Exception):
                raise made
            return made

    after_a_change(Broken())
    assert [event.action for event in told] == ["compiled anew", "compiled anew"]
    assert f"update_weights of backend 'freezing' {what}" in told[0].reason


def test_sizes_may_vary_while_weights_are_frozen(level):
    backend, model = FreezingBackend(level=level), Model()
    compiled = graphwright.compile(model, backend=backend, dynamic=True)
    with torch.no_grad():
        for rows in (2, 5, 7):
            x = torch.randn(rows, 3)
            torch.testing.assert_close(compiled(x), model(x))
        model.shift.add_(1)
        torch.testing.assert_close(compiled(x), model(x))
    assert len(backend.constants) == 2


def test_tensors_of_inference_mode_count_no_changes_and_stay_inputs():
    with torch.inference_mode():
        model = Model()
        backend = FreezingBackend()
        compiled = graphwright.compile(model, backend=backend)
        x = torch.randn(2, 3)
        torch.testing.assert_close(compiled(x), model(x))
        model.shift.add_(1)
        torch.testing.assert_close(compiled(x), model(x))
    assert not any(backend.constants)
