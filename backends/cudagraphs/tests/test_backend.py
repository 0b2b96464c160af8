"""Recording and replaying on the simulated recorder, which overwrites what a CUDA graph overwrites."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._functorch.config
from torch import nn
from torch.nn import functional

from graphwright_cudagraphs import CudaGraphsBackend, CudaGraphsOptions, CudaGraphsWarning
from graphwright_cudagraphs import backend as backend_module
from graphwright_cudagraphs.testing import SimulatedRecorder
from graphwright_plugins import (
    BackendUnavailable,
    LeftToEager,
    OptionError,
    OptionTypeError,
    UnknownOption,
    list_backends,
    resolve_backend,
)
from graphwright_plugins.testing import Program, compile_program, trace
from graphwright_plugins.testing.program import compile_graph, compile_symbolic

Compile = Callable[..., Any]
REPLAY = ["enter", "copy_in", "replay", "leave"]


@pytest.fixture
def compiled(backend: CudaGraphsBackend) -> Compile:
    """Compiles a function for inputs."""

    def compile_function(function: Any, *inputs: Any, **options: Any) -> Any:
        return compile_graph(resolve_backend(backend, options), trace(function), inputs)

    return compile_function


def linear(x: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    hidden = functional.linear(x, weight, bias)
    return (functional.silu(hidden), hidden.square().sum())


def linear_inputs() -> tuple[torch.Tensor, ...]:
    return torch.randn(5, 3), nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(4))


def step(function: Any, *inputs: Any) -> list[torch.Tensor]:
    """Outputs and gradients of one training step; nothing of the step stays alive."""
    outputs = function(*inputs)
    sum(output.square().sum() for output in outputs).backward()
    leaves = [value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad]
    results = [*(output.detach().clone() for output in outputs), *(leaf.grad for leaf in leaves)]
    for leaf in leaves:
        leaf.grad = None
    return results


def take_gradient(weight: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    """The gradient of a weight; it and the others have none afterwards."""
    gradient = weight.grad
    assert gradient is not None
    for leaf in (weight, *others):
        leaf.grad = None
    return gradient


def assert_same_steps(compiled: Any, function: Any, *inputs: Any) -> None:
    torch.testing.assert_close(step(compiled, *inputs), step(function, *inputs))


# ------------------------------------------------------------------ order, pools, copies


def test_inference_warms_up_records_once_and_replays(compiled: Compile, recorders: list[SimulatedRecorder]) -> None:
    graph = compiled(lambda x, y: (x * y + 1, x.sum()), torch.ones(3), torch.ones(3))
    assert recorders == []  # nothing on the device before the first call
    for _ in range(4):
        x, y = torch.randn(3), torch.randn(3)
        torch.testing.assert_close(list(graph(x, y)), [x * y + 1, x.sum()])
    (recorder,) = recorders
    replay = ["enter", "copy_in", "copy_in", "replay", "leave"]
    assert recorder.log == ["warm_up", "record", *replay, *replay, *replay]
    assert graph.recordings == {"inference graph": 1}
    assert graph.notices == ()


def test_training_records_forward_and_backward_into_one_pool(
    compiled: Compile, recorders: list[SimulatedRecorder]
) -> None:
    x, weight, bias = linear_inputs()
    graph = compiled(linear, x, weight, bias)
    for _ in range(4):
        assert_same_steps(graph, linear, torch.randn(5, 3), weight, bias)
        with torch.no_grad():
            weight.add_(0.1)
    (recorder,) = recorders
    forward = REPLAY  # only x is copied
    backward = ["enter", "copy_in", "copy_in", "copy_in", "replay", "leave"]  # x and the gradients of both outputs
    first = ["warm_up", "warm_up", "record", *forward, "record", *backward]
    assert recorder.log == [*first, *forward, *backward, *forward, *backward]
    assert graph.recordings == {"forward graph": 1, "backward graph": 1}
    assert graph.notices == ()


def test_gradients_accumulate_and_stay(compiled: Compile) -> None:
    x, weight, bias = linear_inputs()
    graph = compiled(linear, x, weight, bias)
    copies = [nn.Parameter(value.detach().clone()) for value in (weight, bias)]
    for _ in range(5):
        x = torch.randn(5, 3)
        sum(output.sum() for output in graph(x, weight, bias)).backward()
        sum(output.sum() for output in linear(x, *copies)).backward()
        torch.testing.assert_close([weight.grad, bias.grad], [copy.grad for copy in copies])


def test_each_size_has_a_recording(backend: CudaGraphsBackend, recorders: list[SimulatedRecorder]) -> None:
    program = Program("sizes", lambda x: (x * x.shape[0], x.sum(0)), lambda: (torch.randn(4, 3),))
    graph = compile_symbolic(resolve_backend(backend), program, program.inputs(), [0])
    for rows in (4, 7, 4, 7, 4, 7, 4):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(list(graph(x)), list(program.function(x)))
    assert graph.recordings == {"inference graph": 2}
    assert recorders[0].log.count("warm_up") == 2
    assert recorders[0].log.count("replay") == 5


def test_numbers_are_part_of_what_a_recording_is_for(compiled: Compile) -> None:
    graph = compiled(lambda x, n: (x * n, x + n), torch.ones(3), 5)
    for _ in range(3):
        assert [value.tolist() for value in graph(torch.ones(3), 5)] == [[5.0] * 3, [6.0] * 3]


def test_random_numbers_equal_eagers(compiled: Compile) -> None:
    x = torch.ones(64)
    graph = compiled(lambda x: (functional.dropout(x, 0.5, training=True), torch.rand_like(x)), x)
    for seed in range(4):
        torch.manual_seed(seed)
        expected, after = (functional.dropout(x, 0.5, training=True), torch.rand_like(x)), torch.rand(2)
        torch.manual_seed(seed)
        torch.testing.assert_close(tuple(graph(x)), expected, rtol=0, atol=0)
        assert torch.equal(torch.rand(2), after)


def test_more_warm_ups_can_be_asked_for(compiled: Compile, recorders: list[SimulatedRecorder]) -> None:
    graph = compiled(lambda x: (x + 1,), torch.ones(3), warm_up_calls=3)
    for _ in range(4):
        graph(torch.ones(3))
    assert recorders[0].log == ["warm_up"] * 3 + ["record", *REPLAY]


def test_a_graph_that_computes_nothing_is_not_recorded(compiled: Compile, recorders: list[SimulatedRecorder]) -> None:
    graph = compiled(lambda x: (x.t(), x), torch.ones(2, 3))
    for _ in range(3):
        graph(torch.ones(2, 3))
    assert recorders == []
    assert graph.recordings == {}


# ------------------------------------------------------------------ what the caller keeps


def test_results_that_are_kept_stay_as_they_are(compiled: Compile) -> None:
    graph = compiled(lambda x: (x * 2, (x + 1)[::2]), torch.ones(4))
    inputs = [torch.randn(4) for _ in range(5)]
    kept = [graph(x) for x in inputs]
    for x, results in zip(inputs, kept, strict=True):
        torch.testing.assert_close(list(results), [x * 2, (x + 1)[::2]])


def test_results_may_be_left_where_they_were_written(compiled: Compile, recorders: list[SimulatedRecorder]) -> None:
    graph = compiled(lambda x: (x * 2,), torch.ones(4), clone_outputs=False)
    for _ in range(3):
        x = torch.randn(4)
        assert torch.equal(graph(x)[0], x * 2)
    assert graph.notices == ()
    first = graph(torch.ones(4))[0]
    with pytest.warns(CudaGraphsWarning, match="results of an earlier call are still in use"):
        second = graph(torch.zeros(4))[0]
    assert first.tolist() == [2.0] * 4
    assert second.tolist() == [0.0] * 4
    del first
    replays = recorders[0].log.count("replay")
    assert graph(torch.ones(4))[0].tolist() == [2.0] * 4
    assert recorders[0].log.count("replay") == replays + 1


def test_saved_views_do_not_hold_a_recording_back(compiled: Compile, recorders: list[SimulatedRecorder]) -> None:
    def heads(x: Any, weight: Any) -> tuple[Any, ...]:
        hidden = (x @ weight).view(5, 2, 4).transpose(0, 1)
        return (functional.scaled_dot_product_attention(hidden, hidden.sin(), hidden.cos()),)

    weight = nn.Parameter(torch.randn(3, 8))
    for clone_outputs in (True, False):
        graph = compiled(heads, torch.randn(5, 3), weight, clone_outputs=clone_outputs)
        for _ in range(4):
            assert_same_steps(graph, heads, torch.randn(5, 3), weight)
        assert graph.notices == ()
        assert recorders[-1].log.count("replay") == 6


def test_gradients_are_cloned_even_where_results_are_not(compiled: Compile) -> None:
    x, weight, bias = linear_inputs()
    graph = compiled(linear, x, weight, bias, clone_outputs=False)
    for _ in range(4):
        assert_same_steps(graph, linear, torch.randn(5, 3), weight, bias)
    assert graph.recordings == {"forward graph": 1, "backward graph": 1}
    assert graph.notices == ()


def test_neither_inputs_nor_weights_nor_results_are_kept_alive(compiled: Compile) -> None:
    def call(graph: Any) -> list[weakref.ref[Any]]:
        x, weight, bias = linear_inputs()
        for _ in range(3):
            step(graph, x, weight, bias)
        outputs = graph(x, weight, bias)
        return [weakref.ref(value) for value in (x, weight, bias, *outputs)] + [
            weakref.ref(value.untyped_storage()) for value in (x, weight, bias)
        ]

    graph = compiled(linear, *linear_inputs())
    references = call(graph)
    gc.collect()
    assert [reference() for reference in references] == [None] * 8


# ------------------------------------------------------------------ calls before an earlier backward


def test_a_second_call_before_the_backward_runs_in_eager(compiled: Compile, recorders: list[SimulatedRecorder]) -> None:
    x, weight, bias = linear_inputs()
    graph = compiled(linear, x, weight, bias)
    for _ in range(3):
        step(graph, x, weight, bias)
    replays = recorders[0].log.count("replay")
    for one, other in [(torch.randn(5, 3), torch.randn(5, 3))]:
        first = graph(one, weight, bias)
        with pytest.warns(CudaGraphsWarning, match=r"forward graph ran in eager.*still in use.*no_grad"):
            second = graph(other, weight, bias)
        (first[1] * 2 + second[1]).backward()
        expected = linear(one, weight, bias)[1] * 2 + linear(other, weight, bias)[1]
        torch.testing.assert_close(take_gradient(weight, bias), torch.autograd.grad(expected, weight)[0])
    assert recorders[0].log.count("replay") == replays + 2  # the first call, and its backward
    del first, second
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same_steps(graph, linear, x, weight, bias)
    assert [notice.kind for notice in graph.notices] == ["outstanding"]


@torch._functorch.config.patch(donated_buffer=False)  # torch's condition for retain_graph
def test_a_graph_kept_for_a_second_backward_keeps_its_values(compiled: Compile) -> None:
    x, weight, bias = linear_inputs()
    graph = compiled(linear, x, weight, bias)
    for _ in range(3):
        step(graph, x, weight, bias)
    loss = graph(x, weight, bias)[1]
    loss.backward(retain_graph=True)
    first = take_gradient(weight, bias)
    with pytest.warns(CudaGraphsWarning, match="still in use"):
        assert_same_steps(graph, linear, torch.randn(5, 3), weight, bias)
    loss.backward()
    torch.testing.assert_close(take_gradient(weight, bias), first)


def test_calls_without_backward_are_replayed_one_after_the_other(compiled: Compile) -> None:
    x, weight, bias = linear_inputs()
    graph = compiled(linear, x, weight, bias)
    for _ in range(4):
        torch.testing.assert_close(graph(x, weight, bias)[1].item(), linear(x, weight, bias)[1].item())
    assert graph.recordings["forward graph"] == 1
    assert graph.notices == ()


# ------------------------------------------------------------------ weights


def test_a_weight_at_another_address_is_recorded_anew(compiled: Compile, recorders: list[SimulatedRecorder]) -> None:
    graph = compiled(lambda x, w: (x * w,), torch.ones(3), nn.Parameter(torch.ones(3), requires_grad=False))
    weights = [nn.Parameter(torch.randn(3), requires_grad=False) for _ in range(5)]
    for weight in [weights[0]] * 3 + [weights[1]] * 3:
        x = torch.randn(3)
        assert torch.equal(graph(x, weight)[0], x * weight)
    log = recorders[0].log
    assert log == ["warm_up", "record", *REPLAY, *REPLAY, "free", "record", *REPLAY, *REPLAY, *REPLAY]
    for weight in weights * 2:  # it keeps moving: copied from now on
        x = torch.randn(3)
        assert torch.equal(graph(x, weight)[0], x * weight)
    assert recorders[0].log.count("record") == 3
    assert recorders[0].tapes == 1


# ------------------------------------------------------------------ writes to inputs


def test_writes_to_fixed_addresses_are_recorded(compiled: Compile, recorders: list[SimulatedRecorder]) -> None:
    def count(x: Any, counter: Any) -> tuple[Any, ...]:
        counter.add_(1)
        return (x * counter,)

    counter = nn.Parameter(torch.zeros(1), requires_grad=False)
    graph = compiled(count, torch.ones(3), counter)
    for number in range(1, 6):
        version = counter._version
        assert graph(torch.ones(3), counter)[0].tolist() == [number] * 3
        assert counter.item() == number
        assert counter._version > version
    assert recorders[0].log[2:6] == REPLAY  # x alone is copied


def test_writes_to_other_inputs_are_copied_back(compiled: Compile) -> None:
    def change(x: Any, y: Any) -> tuple[Any, ...]:
        x.add_(y)
        return (x * 2,)

    graph = compiled(change, torch.ones(3), torch.ones(3))
    for _ in range(4):
        x, y = torch.randn(3), torch.randn(3)
        expected = x + y
        assert torch.equal(graph(x, y)[0], expected * 2)
        assert torch.equal(x, expected)
    assert graph.recordings == {"inference graph": 1}


def test_a_written_input_that_keeps_moving_runs_in_eager(compiled: Compile) -> None:
    def count(x: Any, counter: Any) -> tuple[Any, ...]:
        counter.add_(1)
        return (x * counter,)

    counters = [nn.Parameter(torch.zeros(1), requires_grad=False) for _ in range(4)]
    graph = compiled(count, torch.ones(3), counters[0])
    with pytest.warns(CudaGraphsWarning, match="writes to arg1_1, which keeps moving"):
        results = [graph(torch.ones(3), counter)[0].tolist() for _ in range(3) for counter in counters]
    assert results == [[number] * 3 for number in (1, 2, 3) for _ in counters]
    assert [counter.item() for counter in counters] == [3] * 4


# ------------------------------------------------------------------ limits


def test_sizes_beyond_the_limit_run_in_eager_and_say_so(
    backend: CudaGraphsBackend, recorders: list[SimulatedRecorder]
) -> None:
    program = Program("sizes", lambda x: (x * 2,), lambda: (torch.randn(4),))
    graph = compile_symbolic(resolve_backend(backend, {"max_recordings": 2}), program, program.inputs(), [0])
    for rows in (2, 2, 3, 3):
        graph(torch.ones(rows))
    with pytest.warns(CudaGraphsWarning, match=r"2 recordings.*max_recordings") as told:
        results = [graph(torch.ones(rows))[0].tolist() for rows in (4, 5, 4, 5, 2)]
    assert results == [[2.0] * rows for rows in (4, 5, 4, 5, 2)]
    assert len(told) == 1
    assert recorders[0].log[-4:] == REPLAY
    assert recorders[0].tapes == 2
    assert [notice.kind for notice in graph.notices] == ["max_recordings"]


def test_new_sizes_may_replace_old_ones(backend: CudaGraphsBackend, recorders: list[SimulatedRecorder]) -> None:
    program = Program("sizes", lambda x, w: ((x * w).sin(),), lambda: (torch.randn(4), nn.Parameter(torch.ones(1))))
    options = {"max_recordings": 1, "when_full": "replace"}
    graph = compile_symbolic(resolve_backend(backend, options), program, program.inputs(), [0])
    weight = nn.Parameter(torch.randn(1))
    for rows in (2, 2, 2, 3, 3, 3, 2, 2):
        assert_same_steps(graph, program.function, torch.randn(rows), weight)
    assert graph.recordings == {"forward graph": 1, "backward graph": 1}
    assert recorders[0].tapes == 2
    assert recorders[0].log.count("free") == 4
    assert graph.notices == ()


def test_a_replaced_recording_whose_backward_is_to_come_is_not_overwritten(backend: CudaGraphsBackend) -> None:
    program = Program("sizes", lambda x, w: ((x * w).sin(),), lambda: (torch.randn(4), nn.Parameter(torch.ones(1))))
    options = {"max_recordings": 1, "when_full": "replace"}
    graph = compile_symbolic(resolve_backend(backend, options), program, program.inputs(), [0])
    weight = nn.Parameter(torch.randn(1))
    for rows in (2, 2, 2, 3):
        step(graph, torch.randn(rows), weight)
    x = torch.randn(2)
    pending = graph(x, weight)[0].sum()
    for _ in range(2):
        assert_same_steps(graph, program.function, torch.randn(3), weight)
    pending.backward()
    expected = torch.autograd.grad(program.function(x, weight)[0].sum(), weight)[0]
    torch.testing.assert_close(take_gradient(weight), expected)


def test_a_recording_that_fails_leaves_the_graph_to_eager(compiled: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(SimulatedRecorder, "record", fail)
    x, weight, bias = linear_inputs()
    graph = compiled(linear, x, weight, bias)
    step(graph, x, weight, bias)
    with pytest.warns(CudaGraphsWarning, match=r"recording it failed: RuntimeError: .* capturing$"):
        assert_same_steps(graph, linear, x, weight, bias)
    assert_same_steps(graph, linear, x, weight, bias)
    assert graph.recordings == {"forward graph": 0, "backward graph": 0}


def test_an_error_in_the_warm_up_is_the_callers_and_no_warm_up(compiled: Compile) -> None:
    graph = compiled(lambda x, i: (x[i] * 2,), torch.ones(3), torch.tensor([0]))
    with pytest.raises(IndexError):
        graph(torch.ones(3), torch.tensor([9]))
    for _ in range(3):
        assert graph(torch.ones(3), torch.tensor([1]))[0].tolist() == [2.0]


# ------------------------------------------------------------------ refusals


def test_a_graph_that_cannot_be_recorded_is_left_to_eager(backend: CudaGraphsBackend) -> None:
    with pytest.raises(LeftToEager, match=r"aten\.index\.Tensor.* truth values") as caught:
        resolve_backend(backend).compile(trace(lambda x, mask: (x[mask].sum(),)), [torch.ones(3), torch.ones(3) > 0])
    assert "index" in caught.value.node
    assert "truth values" in caught.value.reason


def test_on_a_device_without_cuda_everything_is_left_to_eager() -> None:
    with pytest.raises(LeftToEager, match="its input arg0_1 is on the device cpu"):
        CudaGraphsBackend().compile(trace(lambda x: (x + 1,)), [torch.ones(3)], CudaGraphsOptions())


def test_a_backward_that_cannot_be_recorded_runs_in_eager(compiled: Compile) -> None:
    x, weight = torch.randn(3), nn.Parameter(torch.randn(3))
    graph = compiled(lambda x, w: (torch.ops.graphwright_cudagraphs_test.unsafe_sin(x * w),), x, weight)
    with pytest.warns(CudaGraphsWarning, match="the backward graph runs in eager: the node .*unsafe_sin_backward"):
        assert_same_steps(graph, lambda x, w: (torch.sin(x * w),), torch.randn(3), weight)
    for _ in range(3):
        assert_same_steps(graph, lambda x, w: (torch.sin(x * w),), torch.randn(3), weight)
    assert graph.recordings == {"forward graph": 1}


@torch.library.custom_op("graphwright_cudagraphs_test::unsafe_sin", mutates_args=())
def unsafe_sin(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@torch.library.custom_op(
    "graphwright_cudagraphs_test::unsafe_sin_backward", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,)
)
def unsafe_sin_backward(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return gradient * x.cos()


unsafe_sin.register_fake(lambda x: torch.empty_like(x))
unsafe_sin_backward.register_fake(lambda gradient, x: torch.empty_like(x))
unsafe_sin.register_autograd(
    lambda ctx, gradient: unsafe_sin_backward(gradient, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


# ------------------------------------------------------------------ closing


def test_close_frees_and_later_calls_run_in_eager(
    backend: CudaGraphsBackend, compiled: Compile, recorders: list[SimulatedRecorder]
) -> None:
    x, weight, bias = linear_inputs()
    graph = compiled(linear, x, weight, bias)
    for _ in range(3):
        step(graph, x, weight, bias)
    pending = graph(x, weight, bias)[1]
    kept = graph.recordings
    backend.close()
    assert kept == {"forward graph": 1, "backward graph": 1}
    assert graph.recordings == {"forward graph": 0, "backward graph": 0}
    assert recorders[0].tapes == 0
    with pytest.warns(CudaGraphsWarning, match=r"backward graph runs in eager.* freed by close\(\)"):
        pending.backward()  # its values were lent, and are still there
    expected = torch.autograd.grad(linear(x, weight, bias)[1], weight)[0]
    torch.testing.assert_close(take_gradient(weight, bias), expected)
    with pytest.warns(CudaGraphsWarning, match=r"forward graph runs in eager.* freed by close\(\)"):
        assert_same_steps(graph, linear, torch.randn(5, 3), weight, bias)
    again = compiled(linear, x, weight, bias)
    for _ in range(3):
        assert_same_steps(again, linear, x, weight, bias)
    assert recorders[1].tapes == 2


def test_threads_take_turns(compiled: Compile) -> None:
    x, weight, bias = linear_inputs()
    inference = compiled(lambda x: (x.sin() * 2,), torch.ones(64))
    wrong: list[Any] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(30):
            x = torch.randn(64, generator=generator)
            if not torch.equal(inference(x)[0], x.sin() * 2):
                wrong.append(x)
            rows = torch.randn(5, 3, generator=generator)
            leaf = rows.clone().requires_grad_()
            expected = linear(leaf, weight.detach(), bias.detach())[1]
            (gradient,) = torch.autograd.grad(expected, leaf)
            own = rows.clone().requires_grad_()
            (actual,) = torch.autograd.grad(train(own, weight.detach(), bias.detach())[1], own)
            if not torch.allclose(actual, gradient):
                wrong.append(rows)

    train = compiled(linear, x.clone().requires_grad_(), weight.detach(), bias.detach())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CudaGraphsWarning)
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert train.recordings == {"forward graph": 1, "backward graph": 1}


# ------------------------------------------------------------------ options, availability


def test_it_is_found_by_its_entry_point() -> None:
    (info,) = [info for info in list_backends() if info.distribution == "graphwright-cudagraphs"]
    assert info.name == "cudagraphs"
    assert isinstance(info.error, BackendUnavailable) if backend_module.why_no_cuda() else info.error is None


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"warmup": 1}, UnknownOption, "warm_up_calls"),
        ({"warm_up_calls": "one"}, OptionTypeError, "warm_up_calls"),
        ({"warm_up_calls": 0}, OptionError, "warm_up_calls must be at least 1, not 0"),
        ({"max_recordings": -1}, OptionError, "max_recordings must be at least 1, not -1"),
        ({"when_full": "raise"}, OptionTypeError, "when_full"),
    ],
)
def test_wrong_options_are_refused(
    backend: CudaGraphsBackend, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        resolve_backend(backend, options)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    with pytest.raises(BackendUnavailable, match=r"built without CUDA.*Install a CUDA build"):
        resolve_backend("cudagraphs")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BackendUnavailable, match=r"no CUDA device was found.*nvidia-smi"):
        resolve_backend("cudagraphs")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_backend("cudagraphs").backend is backend_module.cudagraphs


def test_a_program_through_the_kit(backend: CudaGraphsBackend) -> None:
    program = Program("plain", lambda x: (x + 1,), lambda: (torch.randn(3),))
    graph = compile_program(resolve_backend(backend), program, program.inputs())
    assert torch.equal(graph(torch.zeros(3))[0], torch.ones(3))
