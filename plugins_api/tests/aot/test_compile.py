import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import fx
from torch.nn import functional

from graphwright_plugins import LeftToEager, aot_compile, boxed, compile_context, core_decompositions, run_in_eager
from graphwright_plugins.torch_compat import is_boxed


def graph(function: Callable[..., Any]) -> fx.GraphModule:
    return fx.symbolic_trace(function)


def test_real_inputs_work_outside_any_tracing_context() -> None:
    x, w = torch.randn(2, 3), torch.randn(3, 4, requires_grad=True)
    compiled = aot_compile(graph(lambda x, w: ((x @ w).tanh(),)), [x, w], run_in_eager)
    (result,) = compiled(x, w)
    torch.testing.assert_close(result, (x @ w).tanh())
    result.sum().backward()
    ours, w.grad = w.grad, None
    (x @ w).tanh().sum().backward()
    torch.testing.assert_close(ours, w.grad)


def test_forward_backward_and_inference_have_their_own_compilers() -> None:
    calls = []

    def compiler(kind: str) -> Callable[..., Any]:
        def compile_it(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
            calls.append(kind)
            return gm.forward

        return compile_it

    def compile_for(requires_grad: bool) -> Any:
        x = torch.ones(2, requires_grad=requires_grad)
        compiled = aot_compile(graph(lambda x: (x * x,)), [x], compiler("fw"), compiler("bw"), compiler("inference"))
        return compiled(x)[0]

    compile_for(requires_grad=False)
    assert calls == ["inference"]
    compile_for(requires_grad=True).sum().backward()
    assert calls == ["inference", "fw", "bw"]


def test_graphs_are_operators_without_in_place_effects() -> None:
    seen: list[str] = []

    def compiler(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        seen.extend(str(node.target) for node in gm.graph.nodes if node.op == "call_function")
        return gm.forward

    def changes(x: Any) -> Any:
        x.add_(1)
        return (x * 2,)

    x = torch.zeros(2)
    (result,) = aot_compile(graph(changes), [x], compiler)(x)
    assert seen == ["aten.add.Tensor", "aten.mul.Tensor"]
    assert x.tolist() == [1.0, 1.0]
    assert result.tolist() == [2.0, 2.0]


def test_decompositions_are_applied() -> None:
    seen: list[str] = []

    def compiler(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        seen.extend(str(node.target) for node in gm.graph.nodes if node.op == "call_function")
        return gm.forward

    x = torch.randn(3)
    (result,) = aot_compile(
        graph(lambda x: (torch.nn.functional.silu(x),)), [x], compiler, decompositions=core_decompositions()
    )(x)
    assert "aten.silu.default" not in seen
    torch.testing.assert_close(result, torch.nn.functional.silu(x))


@pytest.mark.parametrize("partition", ["default", "min_cut"])
def test_partitions_give_the_same_gradients(partition: Any) -> None:
    x = torch.randn(4, requires_grad=True)
    (result,) = aot_compile(graph(lambda x: (x.sin().exp(),)), [x], run_in_eager, partition=partition)(x)
    result.sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos() * x.detach().sin().exp())


def test_an_unknown_partition_is_refused() -> None:
    with pytest.raises(ValueError, match="partition must be 'default', 'min_cut' or a function, not 'other'"):
        aot_compile(graph(lambda x: (x,)), [torch.ones(1)], run_in_eager, partition="other")  # type: ignore[arg-type]


def test_boxed_functions_empty_their_list() -> None:
    call = boxed(lambda x, y: (x + y,))
    arguments: list[Any] = [1, 2]
    assert call(arguments) == (3,)
    assert arguments == []
    assert is_boxed(call)
    assert boxed(call) is call


def test_graphs_run_in_eager_free_values_after_their_last_use() -> None:
    run = run_in_eager(graph(lambda x: (x.sin().cos(),)), [])
    arguments = [torch.ones(3)]
    reference = weakref.ref(arguments[0])
    run(arguments)
    assert arguments == []
    assert reference() is None


def test_compile_context_uses_the_mode_that_is_there() -> None:
    with compile_context([torch.ones(2)]) as outer, compile_context([torch.ones(2)]) as inner:
        assert inner is outer


def test_what_a_compiler_raises_passes_through() -> None:
    def fails(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        aot_compile(graph(lambda x: (x + 1,)), [torch.ones(1)], fails)


def noise(x: Any) -> Any:
    torch.rand_like(x)
    functional.dropout(x, 0.5)
    (x * 1).bernoulli_(0.5)
    return (x * torch.rand_like(x),)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("partition", ["default", "min_cut"])
def test_random_operations_that_nobody_uses_stay(requires_grad: bool, partition: Any) -> None:
    x = torch.ones(3, requires_grad=requires_grad)
    compiled = aot_compile(graph(noise), [x], run_in_eager, partition=partition)
    torch.manual_seed(0)
    (want,) = noise(x)
    after = torch.rand(1)
    torch.manual_seed(0)
    results = compiled(x)
    assert torch.equal(torch.rand(1), after)
    assert len(results) == 1
    assert torch.equal(results[0], want)
    assert results[0].requires_grad == requires_grad
    if requires_grad:
        results[0].sum().backward()
        assert torch.equal(x.grad, want.detach())


def test_operations_that_fail_for_values_stay_though_nobody_uses_them() -> None:
    def f(x: Any, index: Any) -> Any:
        x[index]
        return (x + 1,)

    compiled = aot_compile(graph(f), [torch.ones(2), torch.tensor([0])], run_in_eager)
    assert compiled(torch.ones(2), torch.tensor([1]))[0].tolist() == [2.0, 2.0]
    with pytest.raises(IndexError):
        compiled(torch.ones(2), torch.tensor([7]))


def test_writes_need_no_further_outputs() -> None:
    outputs: list[int] = []

    def compiler(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        outputs.append(len(list(gm.graph.nodes)[-1].args[0]))
        return gm.forward

    def writes(x: Any, y: Any) -> Any:
        z = y * 2
        z.add_(1)
        z[:1].fill_(5.0)
        x.mul_(2)
        return (z + 1,)

    compiled = aot_compile(graph(writes), [torch.ones(2), torch.ones(2)], compiler)
    x = torch.ones(2)
    assert compiled(x, torch.ones(2))[0].tolist() == [6.0, 4.0]
    assert x.tolist() == [2.0, 2.0]
    assert outputs == [2]  # the result, and the new value of x


def test_unused_results_in_tuples() -> None:
    def f(x: Any) -> Any:
        x.sort()
        torch.nn.functional.max_pool1d(x.reshape(1, 1, 4), 2, return_indices=True)
        x.split(2)
        return (x + 1,)

    x = torch.ones(4, requires_grad=True)
    compiled = aot_compile(graph(f), [x], run_in_eager)
    assert compiled(x)[0].tolist() == [2.0] * 4


def test_writes_to_inputs_that_share_memory_need_no_further_outputs() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return (y * 2,)

    base = torch.arange(6.0)
    compiled = aot_compile(graph(f), [base[:2], base[2:4]], run_in_eager)
    assert compiled(base[:2], base[2:4])[0].tolist() == [4.0, 6.0]
    assert base.tolist() == [1.0, 2.0, 2.0, 3.0, 4.0, 5.0]


def test_writes_to_inputs_that_share_memory_are_left_to_eager() -> None:
    def writes(x: Any, y: Any) -> Any:
        x.add_(1)
        return (y * 2,)

    base = torch.arange(6.0)
    with pytest.raises(LeftToEager, match="it writes to its input x, which shares memory with its input y"):
        aot_compile(graph(writes), [base[:4], base[2:]], run_in_eager)
    (result,) = aot_compile(graph(writes), [base[:3], base[3:]], run_in_eager)(base[:3], base[3:])
    assert base.tolist() == [1, 2, 3, 3, 4, 5]
    assert result.tolist() == [6, 8, 10]


def test_inputs_that_share_memory_and_are_only_read_are_compiled() -> None:
    base = torch.arange(6.0)
    (result,) = aot_compile(graph(lambda x, y: (x + y,)), [base[:4], base[2:]], run_in_eager)(base[:4], base[2:])
    assert result.tolist() == [2, 4, 6, 8]


def test_what_a_compiler_raises_is_no_limit_of_aot_autograd() -> None:
    def broken(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        raise ArithmeticError("a bug of the backend")

    with pytest.raises(ArithmeticError, match="a bug of the backend"):
        aot_compile(graph(lambda x: (x * 2,)), [torch.ones(2)], broken)
