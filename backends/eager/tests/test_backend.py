"""What the two backends do beyond the conformance kit."""

from typing import Any

import pytest
import torch
from torch import fx

from graphwright_eager import AotEagerOptions, aot_eager, eager
from graphwright_plugins import NoOptions, OptionTypeError, UnknownOption, list_backends, resolve_backend
from graphwright_plugins.testing import Program, compile_program, trace

MLP = Program(
    "mlp",
    lambda x, w, v: ((torch.nn.functional.silu(x @ w) @ v).sum(),),
    lambda: (torch.randn(3, 4), torch.randn(4, 5, requires_grad=True), torch.randn(5, 2, requires_grad=True)),
)


def test_both_are_found_by_their_entry_points() -> None:
    listed = {info.name: info for info in list_backends() if info.distribution == "graphwright-eager"}
    assert set(listed) == {"eager", "aot_eager"}
    assert [info.error for info in listed.values()] == [None, None]
    assert resolve_backend("eager").backend is eager
    assert resolve_backend("aot_eager").backend is aot_eager


def test_eager_adds_no_call_of_its_own() -> None:
    graph = trace(lambda x: (x + 1,))
    assert eager.compile(graph, [torch.ones(1)], NoOptions()) == graph.forward


def test_eager_runs_autograd_operator_by_operator() -> None:
    graph = fx.symbolic_trace(lambda x: (x.sin().cos(),))
    x = torch.ones(2, requires_grad=True)
    (result,) = eager.compile(graph, [x], NoOptions())(x)
    assert result.grad_fn is not None
    assert result.grad_fn.name() == "CosBackward0"


@pytest.mark.parametrize("partition", ["default", "min_cut"])
@pytest.mark.parametrize("decompositions", ["none", "core"])
def test_options_change_how_and_never_what(partition: str, decompositions: str) -> None:
    resolved = resolve_backend("aot_eager", {"partition": partition, "decompositions": decompositions})
    assert resolved.options == AotEagerOptions(partition, decompositions)  # type: ignore[arg-type]
    ours, theirs = MLP.inputs(), MLP.inputs()
    (actual,), (expected,) = compile_program(resolved, MLP, ours)(*ours), MLP.function(*theirs)
    actual.backward()
    expected.backward()
    torch.testing.assert_close(actual, expected)
    for mine, other in zip(ours[1:], theirs[1:], strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("eager", {"partition": "default"}, UnknownOption),
        ("aot_eager", {"partitions": "default"}, UnknownOption),
        ("aot_eager", {"partition": "best"}, OptionTypeError),
        ("aot_eager", {"decompositions": True}, OptionTypeError),
    ],
)
def test_wrong_options_are_refused(name: str, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        resolve_backend(name, options)


def test_autocast_of_the_compilation_holds(backend: str) -> None:
    program = Program("autocast", lambda x, w: (x @ w, x + 1), lambda: (torch.randn(3, 4), torch.randn(4, 5)))
    inputs = program.inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual, expected = (
            compile_program(resolve_backend(backend), program, inputs)(*inputs),
            program.function(*inputs),
        )
    assert [value.dtype for value in actual] == [torch.bfloat16, torch.float32]
    torch.testing.assert_close(list(actual), list(expected))


def test_backward_runs_outside_the_tracing_context(backend: str) -> None:
    inputs = MLP.inputs()
    compiled = compile_program(resolve_backend(backend), MLP, inputs)
    for _ in range(2):
        compiled(*inputs)[0].backward()
    once = MLP.inputs()
    MLP.function(*once)[0].backward()
    assert once[1].grad is not None
    torch.testing.assert_close(inputs[1].grad, 2 * once[1].grad)
