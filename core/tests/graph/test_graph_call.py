"""Compiling a graph by a backend: state around it, errors, what it returns."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from graphwright.exc import BackendCompilerFailed
from graphwright.graph.ambient_state import AmbientState
from graphwright.graph.graph_call import call_backend
from graphwright.graph.result_check import ResultCheck, facts_of_outputs
from graphwright.torch_compat import TracingContext
from graphwright.variables.sequence import TupleVariable
from graphwright_plugins import BackendContractError
from graphwright_plugins.torch_compat import as_symbolic, new_fake_mode


class Backend:
    name, distribution, version = "odd", "odd-backend", "1.2"
    takes_real_inputs = False

    def __init__(self, compile_graph: Callable[..., Any]) -> None:
        self.compile = compile_graph


def graph(tx: Any) -> Any:
    x = tx.input(torch.nn.Parameter(torch.ones(2)))
    return tx.finish(tx.fn(torch.mul, x, 2))


def test_a_backend_runs_in_the_tracing_context_and_the_state_of_the_entry(tx: Any) -> None:
    seen = {}

    def compile_graph(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        seen["mode"] = TracingContext.get().fake_mode
        seen["grad"] = torch.is_grad_enabled()
        seen["example"] = examples[0]
        torch.manual_seed(1)
        random.seed(1)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        return module.forward

    x = tx.input(torch.nn.Parameter(torch.ones(2)))
    y = tx.fn(torch.mul, x, 2)
    tx.fn(torch._C._set_grad_enabled, False)
    finished = tx.finish(y)
    numbers = torch.random.get_rng_state(), random.getstate()
    before = AmbientState.current()
    function = call_backend(Backend(compile_graph), finished, tx.capture.output.tracing_context)
    assert AmbientState.current() == before
    assert not torch.is_grad_enabled()
    assert torch.equal(torch.random.get_rng_state(), numbers[0])
    assert random.getstate() == numbers[1]
    assert torch.get_default_dtype() is torch.float32
    assert seen == {"mode": tx.capture.output.fakes.mode, "grad": True, "example": finished.example_inputs[0]}
    assert TracingContext.try_get() is None
    assert torch.equal(function(torch.ones(2))[0], torch.full((2,), 2.0))


def test_what_a_backend_raises_names_the_backend(tx: Any) -> None:
    def compile_graph(*args: Any) -> Any:
        raise KeyError("no such kernel")

    finished = graph(tx)
    with pytest.raises(BackendCompilerFailed, match=r"'odd' .*odd-backend 1\.2.*no such kernel") as caught:
        call_backend(Backend(compile_graph), finished, tx.capture.output.tracing_context)
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.graph_name == finished.name


def test_a_result_that_is_no_function(tx: Any) -> None:
    with pytest.raises(BackendCompilerFailed, match="returned a int where a callable is expected"):
        call_backend(Backend(lambda *args: 3), graph(tx), tx.capture.output.tracing_context)


def test_state_is_restored_when_a_graph_raises_midway(tx: Any) -> None:
    x, i = tx.input(torch.ones(3)), tx.input(torch.tensor([0]), "i")
    tx.fn(torch._C._set_grad_enabled, False)
    y = tx.fn(torch.index_select, x, 0, i)
    tx.fn(torch._C._set_grad_enabled, True)
    finished = tx.finish(y)
    backend = Backend(lambda module, examples: module.forward)
    function = call_backend(backend, finished, tx.capture.output.tracing_context)
    with pytest.raises(IndexError):
        finished.module(torch.ones(3), torch.tensor([9]))
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    with pytest.raises(IndexError):
        function(torch.ones(3), torch.tensor([9]))
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("training", [True, False])
def test_fused_lstm_is_off_while_a_training_graph_is_compiled(tx: Any, training: bool) -> None:
    seen = []
    x, h = tx.input(torch.ones(2, 1, 4)), tx.input(torch.zeros(1, 1, 3), "h")
    cell = torch.nn.LSTM(4, 3).requires_grad_(training)
    weights = [tx.input(p, f"w{i}") for i, p in enumerate(cell._flat_weights)]
    args = [x, TupleVariable([h, h]), TupleVariable(weights), True, 1, 0.0, False, False, False]
    finished = tx.finish(tx.fn(torch.lstm, *args).items[0])
    backend = Backend(lambda *args: seen.append(torch._C._get_mkldnn_enabled()) or len)
    call_backend(backend, finished, tx.capture.output.tracing_context)
    assert seen == [not training]
    assert torch._C._get_mkldnn_enabled()


X = torch.ones(2)


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        (X, "returned a Tensor where a tuple or list"),
        (None, "returned a NoneType where a tuple or list"),
        ((X, X), "returned 2 outputs where the graph has 1"),
        ([None], r"returned None \(NoneType\) as output 0, which is a tensor of torch.float32 of sizes \(2\) on cpu"),
        ((X.double(),), "returned a tensor of torch.float64 of sizes"),
        ((X[:1],), r"of sizes \(1\) on cpu as output 0"),
        ((X[None],), r"of sizes \(1, 2\) on cpu as output 0"),
        ((X.to("meta"),), "on meta as output 0"),
        ((X.numpy(),), "ndarray"),
        ([X], None),
        ((torch.nn.Parameter(X),), None),
    ],
)
def test_results_are_those_of_the_graph(tx: Any, result: Any, fault: str | None) -> None:
    check = ResultCheck("backend 'mine' (mine 1.0)", "g", 1, facts_of_outputs(graph(tx).module))
    function = check.around(lambda *inputs: result)
    if fault is None:
        assert function() is result
        return
    for _ in range(2):  # what failed once is checked again
        with pytest.raises(BackendContractError, match=f"backend 'mine' .*: what it compiled of g .*{fault}"):
            function()


def test_sizes_that_vary_are_not_compared() -> None:
    module = torch.fx.symbolic_trace(lambda x: (x.relu(),))
    (result,) = module.graph.output_node().args[0]  # type: ignore[union-attr, misc]
    result.meta["example_value"] = as_symbolic(new_fake_mode(), torch.ones(3, 2), (0,))  # type: ignore[union-attr]
    check = ResultCheck("backend 'mine'", "g", 1, facts_of_outputs(module))
    with pytest.raises(BackendContractError, match=r"sizes \(\?, 2\)"):
        check.around(lambda *inputs: (torch.ones(5, 3),))()
    check.around(lambda *inputs: (torch.ones(5, 2),))()


def test_what_is_known_of_results_holds_no_tensors(tx: Any) -> None:
    facts = facts_of_outputs(graph(tx).module)
    assert pickle.loads(pickle.dumps(facts)) == facts
