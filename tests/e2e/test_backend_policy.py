"""A backend that fails, refuses, or does part of a graph: what the user asked for happens, and is told."""

from __future__ import annotations

import gc
import logging
import pickle
import re
import weakref

import pytest
import torch

import graphwright
from graphwright import config, events
from graphwright.exc import BackendCompilerFailed, CompileArgumentError, CompileValueError
from graphwright_plugins import (
    BackendContractError,
    BackendResourceError,
    Capabilities,
    GraphForm,
    GraphKind,
    LeftToEager,
    Unsupported,
    UnsupportedGraph,
    load_graph,
    save_graph,
    signature_of,
)
from graphwright_plugins.replay.run import replay

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def _strict():
    with config.patch(raise_internal_errors=True):
        yield
    graphwright.reset()


class Device:
    name = "device"
    capabilities = Capabilities()

    def __init__(self, refused=(), error=None, run_error=None):
        self.refused, self.error, self.run_error = refused, error, run_error
        self.compiled = 0

    def supports(self, node, options):
        name = getattr(node.target, "__name__", node.target)
        return Unsupported(f"the device has no {name}") if name in self.refused else None

    def compile(self, graph, example_inputs, options):
        self.compiled += 1
        if self.error is not None:
            raise self.error
        if self.run_error is None:
            return graph.forward

        def run(*inputs):
            raise self.run_error

        return run


def f(x):
    y = torch.sin(x)
    return torch.cos(y) * 2


ERRORS = {
    "unsupported": UnsupportedGraph("no cos", node="cos"),
    "resource": BackendResourceError("full"),
    "bug": KeyError("bug"),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_each_kind_of_error_is_raised_or_falls_back(kind, caplog):
    error = ERRORS[kind]
    x = torch.randn(3)
    with pytest.raises(BackendCompilerFailed, match=r"backend 'device' failed to compile") as raised:
        graphwright.compile(f, backend=Device(error=error))(x)
    assert raised.value.kind == kind
    assert raised.value.__cause__ is error
    compiled = graphwright.compile(f, backend=Device(error=error), on_backend_error="fallback")
    with events.collected(events.BackendFellBack) as found, caplog.at_level(logging.WARNING, "graphwright"):
        for _ in range(3):
            torch.testing.assert_close(compiled(x), f(x))
    assert [(e.backend, e.fallback, e.kind, e.error) for e in found] == [("device", "eager", kind, error)]
    assert caplog.text.count("runs on 'eager': backend 'device' failed to compile it") == 1
    [report] = graphwright.backend_report(compiled).graphs[-1:]
    assert (report.outcome, report.fallback, report.failures[0].kind) == ("fallback", "eager", kind)
    assert not graphwright.backend_report(compiled).is_complete


def test_an_unsupported_node_is_told_with_the_users_line():
    with pytest.raises(BackendCompilerFailed, match=r"no cos \(node cos, torch.cos at .*test_backend_policy.py:\d+\)"):
        graphwright.compile(f, backend=Device(error=UnsupportedGraph("no cos", node="cos")))(torch.randn(3))


@pytest.mark.parametrize("compile_graph", [lambda graph, inputs: 1 / 0, lambda graph, inputs: 3])
def test_a_failure_tells_where_the_function_is(compile_graph):
    place = f"{f.__code__.co_filename}:{f.__code__.co_firstlineno}"
    with pytest.raises(
        BackendCompilerFailed, match=rf"failed to compile __compiled_fn_\w+ \({re.escape(place)}\): "
    ) as e:
        graphwright.compile(f, backend=compile_graph)(torch.ones(2))
    assert e.value.location == place


def test_the_policy_is_part_of_the_key():
    device = Device(error=BackendResourceError("full"))
    x = torch.randn(3)
    graphwright.compile(f, backend=device, on_backend_error="fallback")(x)
    with pytest.raises(BackendCompilerFailed):
        graphwright.compile(f, backend=device)(x)
    graphwright.compile(f, backend=device, on_backend_error="fallback")(x)
    assert device.compiled == 2
    graphwright.compile(f, backend=device, on_backend_error="fallback", fallback_backend="aot_eager")(x)
    assert device.compiled == 3
    assert graphwright.backend_report(f).graphs[-1].fallback == "aot_eager"


def test_suppress_errors_is_the_policy_for_all():
    with config.patch(suppress_errors=True):
        torch.testing.assert_close(
            graphwright.compile(f, backend=Device(error=KeyError()))(torch.ones(2)), f(torch.ones(2))
        )


def test_wrong_arguments():
    with pytest.raises(CompileValueError, match="on_backend_error must be 'raise' or 'fallback'"):
        graphwright.compile(f, backend="eager", on_backend_error="ignore")
    with pytest.raises(CompileArgumentError, match="fallback_backend must be"):
        graphwright.compile(f, backend="eager", fallback_backend=3)
    with pytest.raises(CompileValueError, match="its own fallback_backend"):
        graphwright.compile(f, backend="aot_eager", fallback_backend="aot_eager")
    with pytest.raises(ValueError, match="no_such"):
        graphwright.compile(f, backend="eager", fallback_backend="no_such")


@pytest.mark.parametrize("policy", ["raise", "fallback"])
def test_an_error_of_the_contract_when_a_graph_runs_follows_the_policy(policy, caplog):
    def g(x, items):
        items.append(1)
        return x + 1

    compiled = graphwright.compile(
        g, backend=Device(run_error=BackendResourceError("out of memory")), on_backend_error=policy
    )
    items = []
    with events.collected(events.GraphFailed) as failed, caplog.at_level(logging.WARNING, "graphwright"):
        if policy == "raise":
            with pytest.raises(BackendResourceError, match="out of memory"):
                compiled(torch.ones(1), items)
        else:
            assert compiled(torch.ones(1), items).tolist() == [2.0]
    assert [e.runs_in_eager for e in failed] == [policy == "fallback"]
    assert items == ([1] if policy == "fallback" else [])
    assert "out of memory" in caplog.text


def test_results_that_are_not_the_graphs_follow_the_policy():
    class Wrong(Device):
        def compile(self, graph, example_inputs, options):
            return lambda *inputs: tuple(result.double() for result in graph.forward(*inputs))

    x = torch.randn(3)
    with pytest.raises(BackendContractError, match=r"backend 'device'.* returned a tensor of torch.float64"):
        graphwright.compile(f, backend=Wrong())(x)
    with events.collected(events.GraphFailed) as failed:
        torch.testing.assert_close(graphwright.compile(f, backend=Wrong(), on_backend_error="fallback")(x), f(x))
    assert [event.runs_in_eager for event in failed] == [True]


def test_a_part_with_results_too_few_is_told():
    class Wrong(Device):
        def compile(self, graph, example_inputs, options):
            return lambda *inputs: ()

    compiled = graphwright.compile(f, backend=Wrong(refused=("cos",)))
    with pytest.raises(BackendContractError, match=r"backend 'device'.*part of a graph returned 0 outputs where .* 1"):
        compiled(torch.randn(3))


class AtenDevice(Device):
    """Fails on backward graphs."""

    graph_form = GraphForm(level="aten")

    def __init__(self, stage, **how):
        super().__init__(**how)
        self.stage = stage

    def compile(self, graph, example_inputs, options):
        if signature_of(graph).kind is not GraphKind.BACKWARD:
            return graph.forward
        if self.stage == "compiling":
            raise KeyError("tile")
        if self.stage == "leaving":
            raise LeftToEager("no tiles for this one")
        return lambda *inputs: () if self.stage == "counting" else 1 // 0


@pytest.mark.parametrize(
    ("stage", "error", "event"),
    [
        ("compiling", KeyError, events.BackendFailed),
        ("running", ZeroDivisionError, events.GraphFailed),
        ("counting", BackendContractError, events.GraphFailed),
    ],
)
def test_a_backward_graph_that_fails_says_whose_it_is(stage, error, event):
    loss = graphwright.compile(f, backend=AtenDevice(stage))(torch.ones(2, requires_grad=True)).sum()
    with events.collected(event) as told, pytest.raises(error) as raised:
        loss.backward()
    (note,) = raised.value.__notes__
    when = "compiling" if stage == "compiling" else "running"
    assert note.startswith(f"Raised {when} the backward graph of f (")
    assert "test_backend_policy.py:" in note
    assert note.endswith(" by backend 'device'")
    (failure,) = told
    assert (failure.graph_name, failure.backend) == ("the backward graph of f", "device")
    assert failure.location.filename.endswith("test_backend_policy.py")


@pytest.mark.parametrize("policy", ["raise", "fallback"])
def test_a_backward_graph_may_be_left_to_eager(policy, caplog):
    x, other = (torch.ones(2, requires_grad=True) for _ in range(2))
    with caplog.at_level(logging.WARNING, "graphwright"):
        graphwright.compile(f, backend=AtenDevice("leaving"), on_backend_error=policy)(x).sum().backward()
    f(other).sum().backward()
    torch.testing.assert_close(x.grad, other.grad)
    assert "the backward graph of f (" in caplog.text
    assert "no tiles for this one" in caplog.text


def test_the_fallback_of_a_backward_graph_is_told_with_its_name(caplog):
    x = torch.ones(2, requires_grad=True)
    compiled = graphwright.compile(f, backend=AtenDevice("compiling"), on_backend_error="fallback")
    with caplog.at_level(logging.WARNING, "graphwright"):
        compiled(x).sum().backward()
    assert x.grad is not None
    assert "the backward graph of f (" in caplog.text
    assert "(None)" not in caplog.text


def test_parts_and_reasons_are_told(caplog):
    compiled = graphwright.compile(f, backend=Device(refused=("cos",)))
    x = torch.randn(3, requires_grad=True)
    with events.collected() as found, caplog.at_level(logging.INFO, "graphwright"):
        got = compiled(x)
    torch.testing.assert_close(got, f(x))
    [cut] = [e for e in found if isinstance(e, events.GraphPartitioned)]
    assert (cut.parts, cut.on_backend, cut.fallback) == (3, 2, "eager")
    assert "cos (torch.cos) at " in cut.reasons[0]
    assert "the device has no cos" in caplog.text
    report = graphwright.backend_report(compiled)
    assert [part.backend for part in report.graphs[0].parts] == ["device", "eager", "device"]
    assert "2 of 3 parts; the others run on 'eager'" in str(report)
    [done] = [e for e in found if isinstance(e, events.GraphCompiled)]
    assert done.reports == report.graphs


def test_where_nothing_runs_on_the_backend_there_is_a_warning(caplog):
    device = Device(refused=("sin", "cos", "mul"))
    with caplog.at_level(logging.WARNING, "graphwright"):
        graphwright.compile(f, backend=device)(torch.ones(2))
    assert device.compiled == 0
    assert "runs on backend 'device'; all of it runs on 'eager'" in caplog.text


def test_in_place_operations_views_and_state_of_captured_graphs():
    def g(x, buffer):
        with torch.no_grad():
            buffer[0].add_(x.sum())
            scale = buffer.mean().sin()
        x = x * scale
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ x.t()
        row = buffer[1]
        row.mul_(2)
        return y.float().cos() + row.sum(), torch.nn.functional.dropout(x, 0.5), buffer[1]

    for refused in [("sin",), ("add_",), ("matmul", "mul_"), ("cos", "getitem"), ("dropout", "sum"), ("mean", "mul")]:
        compiled = graphwright.compile(g, backend=Device(refused))
        for _ in range(2):
            sides = []
            for function in (g, compiled):
                torch.manual_seed(0)
                x, buffer = torch.randn(3, 3, requires_grad=True), torch.ones(2, 2)
                out = function(x, buffer)
                grads = torch.autograd.grad(out[0].sum() + out[1].sum(), x)
                sides.append((*out, *grads, buffer, torch.get_rng_state(), out[2].data_ptr() == buffer[1].data_ptr()))
            torch.testing.assert_close(sides[0], sides[1])


def test_sizes_that_vary():
    def g(x):
        y = torch.sin(x)
        return torch.cos(y.reshape(y.shape[0] * 2, -1)) + x.shape[0], y.size(0)

    for refused in [("sin",), ("cos",), ("reshape",), ("add",)]:
        compiled = graphwright.compile(g, backend=Device(refused), dynamic=True)
        for rows in (4, 6, 9):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(compiled(x), g(x))
        assert graphwright.explain_recompiles(compiled).captures == 1
        graphwright.reset()


def test_a_backward_graph_that_is_cut_or_fails_later_is_told_too():
    class Operators(Device):
        graph_form = GraphForm(level="aten")

        def supports(self, node, options):
            return Unsupported("no such kernel") if "neg" in str(node.target) else None

    compiled = graphwright.compile(f, backend=Operators())
    x = torch.randn(3, requires_grad=True)
    with events.collected(events.GraphPartitioned) as found:
        compiled(x).sum().backward()
    expected = torch.autograd.grad(f(x).sum(), x)[0]
    torch.testing.assert_close(x.grad, expected)
    assert any("no such kernel" in reason for event in found for reason in event.reasons)


def on(*devices):
    device = Device()
    device.capabilities = Capabilities(devices=devices)
    return device


def test_a_graph_with_inputs_on_devices_that_the_backend_does_not_list_is_unsupported(caplog):
    x = torch.randn(3)
    told = r"inputs elsewhere \(L\['x'\] on cpu\); backend 'device' compiles for npu"
    with pytest.raises(BackendCompilerFailed, match=told) as raised:
        graphwright.compile(f, backend=on("npu"))(x)
    assert raised.value.kind == "unsupported"
    device = on("npu")
    compiled = graphwright.compile(f, backend=device, on_backend_error="fallback")
    with events.collected(events.BackendFellBack) as found, caplog.at_level(logging.WARNING, "graphwright"):
        torch.testing.assert_close(compiled(x), f(x))
    assert [(e.kind, e.fallback) for e in found] == [("unsupported", "eager")]
    assert "compiles for npu" in caplog.text
    assert device.compiled == 0
    assert graphwright.backend_report(compiled).graphs[-1].outcome == "fallback"


@pytest.mark.parametrize("device", [on("cpu"), on("cpu", "npu"), Device()], ids=["listed", "one of two", "all"])
def test_a_graph_on_listed_devices_goes_to_the_backend(device):
    x = torch.randn(3)
    torch.testing.assert_close(graphwright.compile(f, backend=device)(x), f(x))
    assert device.compiled == 1


def test_numbers_on_the_cpu_and_tensors_that_hold_nothing_are_no_inputs_elsewhere():
    def g(x, scale):
        return x * scale

    device = on("meta")
    graphwright.compile(g, backend=device)(torch.ones(3, device="meta"), torch.tensor(2.0, device="meta"))
    assert device.compiled == 1
    with pytest.raises(BackendCompilerFailed, match="inputs elsewhere"):
        graphwright.compile(g, backend=on("npu"))(torch.ones(()), torch.ones(()))


def test_a_dry_run_compiles_nothing():
    device = Device(refused=("cos",))
    explanation = graphwright.explain(f, backend=device)(torch.ones(2))
    assert device.compiled == 0
    [plan] = explanation.plans
    assert [part.on_backend for part in plan.parts] == [True, False, True]
    assert "the device has no cos" in str(explanation)
    assert graphwright.explain(f)(torch.ones(2)).plans == []


def test_reports_hold_no_tensors():
    def failing(graph, example_inputs):
        raise ValueError("bug")

    x = torch.randn(3)
    compiled = graphwright.compile(f, backend=failing, on_backend_error="fallback")
    compiled(x)
    report = graphwright.backend_report(compiled)
    pickle.loads(pickle.dumps(report))
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None


def test_a_captured_graph_is_saved_and_replayed(tmp_path):
    def g(x, w):
        with torch.no_grad():
            w.add_(1)
        return torch.nn.functional.softmax(x @ w, -1)[..., :2], x.shape[0]

    given = torch.randn(3, 4), torch.zeros(4, 4)
    with events.collected(events.GraphCaptured) as found:
        graphwright.compile(g, backend="eager")(*given)
    [captured] = found
    given = given[::-1]  # inputs of a graph are in the order of their first use
    save_graph(tmp_path, captured.graph_module, captured.example_inputs, backend="eager", inputs=given)
    assert [n.target for n in load_graph(tmp_path).graph.graph.nodes] == [
        n.target for n in captured.graph_module.graph.nodes
    ]
    for backend in ("eager", "aot_eager", Device(refused=("add_",))):
        assert replay(tmp_path, backend).outcome == "same"
