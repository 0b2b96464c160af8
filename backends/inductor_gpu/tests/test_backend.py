"""What the backend does beyond the conformance kit, on graphs alone: each test compiles one or two small kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.exc import TorchDynamoException
from torch.nn import functional

from graphwright_inductor_gpu import InductorOptions, inductor_gpu, lowering
from graphwright_inductor_gpu.constants import with_constants, without_constants
from graphwright_plugins import LeftToEager, listen_to_artifacts, resolve_backend
from graphwright_plugins.shown_artifacts import _listeners
from graphwright_plugins.testing import Program, compile_program, trace
from graphwright_plugins.torch_compat import new_fake_mode

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")


def mlp(x: Any, w: Any, v: Any) -> tuple[Any, ...]:
    return ((functional.silu(x @ w) @ v).sum(),)


MLP = Program(
    "mlp",
    mlp,
    lambda: (torch.randn(3, 4), torch.randn(4, 5, requires_grad=True), torch.randn(5, 2, requires_grad=True)),
)


def test_training_equals_eager_and_the_code_is_shown() -> None:
    shown: list[tuple[str, str, str]] = []

    def listener(kind: str, name: str, text: Callable[[], str]) -> None:
        shown.append((kind, name, text()))

    listen_to_artifacts(listener)
    try:
        ours, theirs = MLP.inputs(), MLP.inputs()
        compiled = compile_program(resolve_backend("inductor_gpu"), MLP, ours)
        (actual,), (expected,) = compiled(*ours), mlp(*theirs)
        actual.backward()
        expected.backward()
        compile_program(resolve_backend("inductor_gpu"), MLP, ours)  # now from the cache
    finally:
        _listeners.remove(listener)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    for mine, other in zip(ours[1:], theirs[1:], strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-5, atol=1e-5)
    graphs, code = ([each[1:] for each in shown if each[0] == kind] for kind in ("aot_graphs", "output_code"))
    assert len(graphs) + len(code) == len(shown)
    assert {name for name, _ in code} <= {"forward graph", "backward graph", "graph from the cache"}
    assert len(code) >= 3
    assert all("def call(" in text for _, text in code)
    assert {name for name, _ in graphs} <= {"forward graph", "backward graph"}
    assert all("torch.ops.aten" in text for _, text in graphs)


def test_autocast_of_the_compilation_holds() -> None:
    program = Program("autocast", lambda x, w: (x @ w, x + 1), lambda: (torch.randn(3, 4), torch.randn(4, 5)))
    inputs = program.inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compiled = compile_program(resolve_backend("inductor_gpu"), program, inputs)
        actual, expected = compiled(*inputs), program.function(*inputs)
    assert [value.dtype for value in actual] == [torch.bfloat16, torch.float32]
    torch.testing.assert_close(list(actual), list(expected))


def test_unused_draws_move_the_generator() -> None:
    def draws(x: Any) -> tuple[Any, ...]:
        torch.rand_like(x)
        return (functional.dropout(x, 0.5, training=True) + torch.randn_like(x),)

    program = Program("draws", draws, lambda: (torch.ones(16),))
    (x,) = program.inputs()
    compiled = compile_program(resolve_backend("inductor_gpu"), program, [x])
    for seed in (1, 2):
        torch.manual_seed(seed)
        expected, after = draws(x)[0], torch.rand(2)
        torch.manual_seed(seed)
        assert torch.equal(compiled(x)[0], expected)
        assert torch.equal(torch.rand(2), after)


def test_inductors_own_random_numbers_are_an_option() -> None:
    program = Program("noise", lambda x: (torch.rand_like(x),), lambda: (torch.ones(64),))
    (x,) = program.inputs()
    compiled = compile_program(resolve_backend("inductor_gpu", {"fallback_random": False}), program, [x])
    torch.manual_seed(1)
    (drawn,) = compiled(x)
    torch.manual_seed(1)
    assert torch.equal(compiled(x)[0], drawn)
    torch.manual_seed(1)
    assert not torch.equal(drawn, torch.rand_like(x))


def test_a_write_to_one_of_two_inputs_that_overlap_is_left_to_eager() -> None:
    def change(x: Any, y: Any) -> tuple[Any, ...]:
        x.add_(1)
        return (y * 2,)

    base = torch.randn(6)
    program = Program("overlap", change, lambda: (base[:4], base[2:]))
    with pytest.raises(LeftToEager, match="shares memory"):
        inductor_gpu.compile(trace(change), fakes(program.inputs()), InductorOptions())


def test_constants_among_the_outputs_are_put_back() -> None:
    graph = trace(lambda x: (x + 1, 3, None, 2.5, x * 2, True))
    computing, results = without_constants(graph)
    assert results is not None
    one = torch.ones(1)
    assert [*map(str, computing(one))] == ["tensor([2.])", "None", "tensor([2.])"]
    assert [*map(str, with_constants(computing, results)(one))] == [*map(str, graph(one))]
    assert without_constants(computing) == (computing, None)


class _OfInductor(TorchDynamoException):
    pass


@pytest.mark.parametrize(("raised", "expected"), [(RuntimeError, LeftToEager), (_OfInductor, _OfInductor)])
def test_what_aot_cannot_do_is_left_to_eager_and_faults_of_inductor_are_not(
    raised: type[Exception], expected: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> Any:
        raise raised("no way")

    monkeypatch.setattr(lowering, "compile_fx", fail)
    with pytest.raises(expected, match="no way"):
        inductor_gpu.compile(trace(lambda x: (x + 1,)), fakes([torch.ones(2)]), InductorOptions())


def fakes(inputs: list[Any]) -> list[Any]:
    mode = new_fake_mode()
    return [mode.from_tensor(value, static_shapes=True) for value in inputs]
