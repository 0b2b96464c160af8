"""prepare(), and advice on capture that holds for one backend only."""

import pytest
import torch

import graphwright
import graphwright.events as events
from graphwright_plugins import (
    BackendContractError,
    BackendResourceError,
    Capabilities,
    CaptureAdvice,
    NoOptions,
    PrepareFailed,
)


class Preparing:
    name = "preparing"
    capabilities = Capabilities()
    options_type = NoOptions

    def __init__(self, error=None):
        self.prepared, self.compiled, self.error = 0, 0, error

    def prepare(self, options):
        if self.error is not None:
            raise self.error
        self.prepared += 1

    def compile(self, graph, example_inputs, options):
        assert self.prepared == 1
        self.compiled += 1
        return graph.forward


def test_prepare_runs_once_before_the_first_call():
    backend = Preparing()
    compiled = graphwright.compile(lambda x: x + 1, backend=backend)
    assert (backend.prepared, backend.compiled) == (1, 0)
    graphwright.compile(lambda x: x + 2, backend=backend, dynamic=True)(torch.ones(2))
    compiled(torch.ones(2))
    assert (backend.prepared, backend.compiled) == (1, 2)


def test_errors_of_prepare_are_typed_and_it_is_asked_again():
    backend = Preparing(ZeroDivisionError("no device"))
    with pytest.raises(
        PrepareFailed, match=r"'preparing' raised ZeroDivisionError in prepare\(\).*no device"
    ) as caught:
        graphwright.compile(lambda x: x + 1, backend=backend)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    backend.error = BackendResourceError("all devices are taken")
    with pytest.raises(BackendResourceError, match="all devices are taken"):
        graphwright.compile(lambda x: x + 1, backend=backend)
    backend.error = None
    graphwright.compile(lambda x: x + 1, backend=backend)
    assert backend.prepared == 1


def fused_norm(x):
    return x / (x * x).sum().sqrt()


def checked(x):
    return x.clamp(0) + 1


class Advising:
    name = "advising"
    options_type = NoOptions
    capabilities = Capabilities()

    def __init__(self, **advice):
        self.capture_advice = CaptureAdvice(**advice)
        self.targets = []

    def compile(self, graph, example_inputs, options):
        nodes = [node for node in graph.graph.nodes if node.op.startswith("call_")]
        self.targets.append([getattr(node.target, "__name__", node.target) for node in nodes])
        return graph.forward


def program(x):
    return checked(fused_norm(x * 2)) * 3


def test_what_is_kept_whole_is_one_call_in_the_graph():
    backend, other = Advising(keep_whole=(fused_norm,)), Advising()
    x = torch.randn(4)
    torch.testing.assert_close(graphwright.compile(program, backend=backend)(x), program(x))
    torch.testing.assert_close(graphwright.compile(program, backend=other)(x), program(x))
    assert backend.targets == [["mul", "fused_norm", "clamp", "add", "mul"]]
    assert "fused_norm" not in other.targets[0]
    assert len(other.targets) == 1


def test_gradients_flow_through_what_is_kept_whole():
    x = torch.randn(4, requires_grad=True)
    compiled = graphwright.compile(program, backend=Advising(keep_whole=(fused_norm,)))
    (actual,) = torch.autograd.grad(compiled(x).sum(), [x])
    (expected,) = torch.autograd.grad(program(x).sum(), [x])
    torch.testing.assert_close(actual, expected)


def test_what_is_left_out_ends_the_graph_with_the_backends_reason():
    backend = Advising(leave_out=(checked,), reason="its clamp is wrong")
    x = torch.randn(4)
    with events.collected(events.GraphBroke) as broken:
        torch.testing.assert_close(graphwright.compile(program, backend=backend)(x), program(x))
    assert [event.gw_id for event in broken] == ["GW0010"]
    assert "backend 'advising'" in broken[0].detail
    assert "its clamp is wrong" in broken[0].detail
    assert not any("clamp" in targets for targets in backend.targets)
    other = Advising()
    graphwright.compile(program, backend=other)(x)
    assert "clamp" in other.targets[0]
    with pytest.raises(graphwright.exc.Unsupported, match="its clamp is wrong"):
        graphwright.compile(program, backend=backend, fullgraph=True)(x)


def test_methods_and_the_compiled_function_itself_can_be_meant():
    class Model(torch.nn.Module):
        def inner(self, x):
            return x.sin()

        def forward(self, x):
            return self.inner(x) + 1

    backend = Advising(leave_out=(Model.inner,))
    model, x = Model(), torch.randn(3)
    torch.testing.assert_close(graphwright.compile(model, backend=backend)(x), model(x))
    assert [target for targets in backend.targets for target in targets] == ["add"]
    backend = Advising(leave_out=(checked,))
    torch.testing.assert_close(graphwright.compile(checked, backend=backend)(x), checked(x))
    assert not backend.targets
    other = Advising()
    graphwright.compile(checked, backend=other)(x)
    assert other.targets


def test_a_function_of_torchs_can_be_left_out():
    def fn(x):
        return torch.relu(torch.sin(x) + 1)

    backend, x = Advising(leave_out=(torch.sin,), reason="too slow"), torch.randn(3)
    with events.collected(events.GraphBroke) as broken:
        torch.testing.assert_close(graphwright.compile(fn, backend=backend)(x), fn(x))
    assert "too slow" in broken[0].detail
    assert backend.targets == [["add", "relu"]]


@pytest.mark.parametrize("advice", ["fused_norm", lambda options: CaptureAdvice(keep_whole=("fused_norm",))])
def test_wrong_advice_is_refused_when_compiling(advice):
    backend = Advising()
    backend.capture_advice = advice
    with pytest.raises(BackendContractError, match="advising"):
        graphwright.compile(program, backend=backend)
