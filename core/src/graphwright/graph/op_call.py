"""One torch operation on variables: run it on fakes, decide whether it needs a node, wrap what it gives."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

import graphwright.graph_breaks as gb
from graphwright.exc import NotProxyable
from graphwright.graph.fake import TensorWatch, fake_argument, partly_overlap
from graphwright.markers import why_left_out
from graphwright.torch_compat import SYMBOLIC_TYPES, bind_fresh_symbols
from graphwright.variables.base import Args, Kwargs, Tx, VariableTracker, realize_all
from graphwright.variables.dict import DictVariable
from graphwright.variables.graph_argument import check_generator, graph_argument
from graphwright.variables.op_traits import (
    changes_metadata,
    is_effectful,
    is_removable,
    makes_quantized,
    may_divide_by_zero,
    may_fail_by_kinds,
    may_fail_by_values,
    op_name,
    refuses_empty,
    refuses_mixed,
    resizes,
    writes,
    written_by_kernel,
)
from graphwright.variables.sequence import ListVariable, TupleVariable, is_structseq
from graphwright.variables.symbolic import needs_node, wrap_number
from graphwright.variables.tensor import TensorVariable
from graphwright.variables.tensor_subclass import call_overridden, holds_override
from graphwright_plugins.graphs.facts import tensors_in

if TYPE_CHECKING:
    from graphwright.graph.output_graph import OutputGraph

MakeNode = Callable[[Any], fx.Node]


def call_op(output: OutputGraph, tx: Tx, kind: str, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Put one operation into the graph; see `OutputGraph.call_op`."""
    what = op_name(target)
    check_generator(tx, what, kwargs)
    left_out = why_left_out(target)
    if left_out is not None:
        tx.graph_break(gb.DISABLED, f"{what}: {left_out}")
    try:
        proxies = tuple(graph_argument(a) for a in realize_all(args))
        named = {k: graph_argument(v.realize()) for k, v in kwargs.items()}
    except NotProxyable as error:
        tx.graph_break(gb.UNSUPPORTED_TORCH, f"{what}: {error}")
    if holds_override((proxies, named)):
        method = target if kind == "call_method" else None
        return call_overridden(tx, target, args, kwargs, method=method)
    if named.get("requires_grad") is True:
        tx.graph_break(gb.BACKWARD_INSIDE, f"{what} makes a tensor that asks for gradients in the middle of a graph")
    _check_refused(tx, what, proxies, named)
    _check_failing(output, tx, what, proxies)
    fakes, fake_named = fake_argument(proxies), fake_argument(named)
    _check_metadata(output, tx, what, fakes)
    watch = TensorWatch([*tensors_in(fakes), *tensors_in(fake_named)])
    function = _method(target) if kind == "call_method" else target
    result = output.run_fake(tx, lambda: function(*fakes, **fake_named), what=what)
    written = watch.changed() + written_by_kernel(what, target, fakes, fake_named)
    if not written and not changes_metadata(what) and writes(what, target, fake_named):
        # Some operations on lists, and all on inference tensors, do not count their changes.
        written = list(watch.tensors)
    if target is operator.setitem:
        _check_overlap(tx, what, _written_by_setitem(output, tx, fakes), watch.tensors[1:])
    else:
        _check_overlap(tx, what, written, watch.tensors)
    _check_written(output, tx, what, written)
    output.note_written(written)
    _check_inputs_kept(output, tx, what, watch)
    effectful = bool(written) or changes_metadata(what) or is_effectful(what, target)
    if not effectful and _needs_no_node(output, result):
        return wrap_result(output, tx, result, None)
    removable = not effectful and is_removable(what, target, watch.tensors)
    node = output.create_node(kind, target, proxies, named, result, removable=removable)
    bind_fresh_symbols(output.shape_env, node, result)
    return wrap_result(output, tx, result, node)


def _method(name: str) -> Callable[..., Any]:
    def call_method(owner: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(owner, name)(*args, **kwargs)

    return call_method


def _needs_no_node(output: OutputGraph, result: Any) -> bool:
    """Whether nothing new is in the result: Python values, and tensors that have a variable already."""
    return all(output.variable_of(t) is not None for t in tensors_in(result)) and not any(
        map(needs_node, _leaves(result))
    )


def _leaves(value: Any) -> Iterator[Any]:
    """What is in nested tuples and lists."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


# ---------------------------------------------------------------- what may not be done


def _check_refused(tx: Tx, what: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Break before an operation that fakes do and kernels refuse, or that fakes get wrong."""
    if kwargs.get("alpha") is True or kwargs.get("alpha") is False:
        tx.graph_break(gb.TORCH_OP_FAILED, f"{what} gets a bool as alpha, which kernels refuse and fakes do not")
    fakes = fake_argument(args)
    if refuses_empty(what, fakes):
        tx.graph_break(gb.TORCH_OP_FAILED, f"{what} of a tensor without elements, which only kernels refuse")
    if refuses_mixed(what, [*fakes, *fake_argument(tuple(kwargs.values()))]):
        tx.graph_break(gb.TORCH_OP_FAILED, f"{what} of tensors of different dtypes, which only kernels refuse")
    if makes_quantized(what):
        tx.graph_break(gb.UNSUPPORTED_TORCH, f"{what} gives a quantized tensor")


def _check_failing(output: OutputGraph, tx: Tx, what: str, args: Sequence[Any]) -> None:
    """Break before an operation that may fail when the graph runs, where the failure would then come too late.

    A call whose graph failed runs again in eager; but not when the graph has written to something already. Then what
    the program did before, which is replayed after the graph, would be lost, and what a `finally` clause does. `with`
    changes back, as a rule, what was changed for it.
    """
    fakes = fake_argument(args)
    by_kinds = may_fail_by_kinds(what, fakes)
    if not by_kinds and not may_fail_by_values(what, args) and not may_divide_by_zero(what, fakes):
        return
    if tx.is_in_try():
        tx.graph_break(gb.DATA_DEPENDENT_VALUE, f"{what} in a try statement: whether it fails depends on values")
    capture = tx.capture
    # What fails for kinds fails each time; for values, hardly ever, and whole models run in a `finally` of wrappers.
    goes_on = (by_kinds and tx.is_in_finally()) or tx.may_be_swallowed()
    loses_effects = goes_on or not (capture.effects.is_empty() or tx.is_in_cleanup())
    if capture.is_whole or not loses_effects:
        return
    if not output.is_repeatable():
        detail = f"{what} may fail for its tensors' values, when tensors and Python objects have been changed"
        tx.graph_break(gb.DATA_DEPENDENT_VALUE, detail)
    output.must_stay_repeatable |= goes_on


def _check_written(output: OutputGraph, tx: Tx, what: str, written: Sequence[torch.Tensor]) -> None:
    """Break before a write to an input where an operation before it, or itself, may fail with effects to be redone."""
    if output.must_stay_repeatable and output.are_of_inputs(written):
        detail = f"{what} writes to an input, when it or an operation before it may fail for its tensors' values"
        tx.graph_break(gb.DATA_DEPENDENT_VALUE, detail)


def _check_metadata(output: OutputGraph, tx: Tx, what: str, fakes: tuple[Any, ...]) -> None:
    """Break before an input's metadata would change."""
    if not fakes or not isinstance(fakes[0], torch.Tensor):
        return
    if resizes(what):
        tx.graph_break(gb.INPUT_METADATA_MUTATION, f"{what} gives a tensor another storage")
    if not changes_metadata(what):
        return
    entry = output.input_of(fakes[0])
    if entry is None:
        return
    if what == "detach_" and fakes[0].is_leaf and not fakes[0].requires_grad:
        return
    tx.graph_break(gb.INPUT_METADATA_MUTATION, f"{what} on input {entry.source}")


def _check_inputs_kept(output: OutputGraph, tx: Tx, what: str, watch: TensorWatch) -> None:
    for tensor in watch.tensors:
        entry = output.input_of(tensor)
        if entry is not None and entry.layout_changed():
            tx.graph_break(gb.INPUT_METADATA_MUTATION, f"{what} changes the layout of input {entry.source}")


_BASIC_INDICES = (int, torch.SymInt, slice)


def _written_by_setitem(output: OutputGraph, tx: Tx, operands: tuple[Any, ...]) -> Sequence[torch.Tensor]:
    """What `tensor[index] = value` writes to: the part that basic indices name, which `value` may be itself."""
    tensor, index, _ = operands
    items = index if isinstance(index, tuple) else (index,)
    if not all(item is None or item is Ellipsis or isinstance(item, _BASIC_INDICES) for item in items):
        return [tensor]
    return [output.run_fake(tx, lambda: tensor[index], what="setitem")]


def _check_overlap(tx: Tx, what: str, written: Sequence[torch.Tensor], operands: Sequence[torch.Tensor]) -> None:
    """Break before a write to memory that another operand shares in part: kernels refuse it, fakes do not."""
    for tensor in written:
        if any(partly_overlap(tensor, other) for other in operands if other is not tensor):
            tx.graph_break(gb.TORCH_OP_FAILED, f"{what} writes to memory that is partly read")


# ---------------------------------------------------------------- results


def wrap_result(output: OutputGraph, tx: Tx, result: Any, node: fx.Node | None) -> VariableTracker:
    """The variable of a result; `node` is where its tensors come from, None when all of them are known."""
    if isinstance(result, torch.Tensor):
        return _wrap_tensor(output, result, node)
    if isinstance(result, SYMBOLIC_TYPES):
        return wrap_number(tx, result, node)
    if isinstance(result, torch.Size):
        return TupleVariable([tx.wrap(v) for v in result], cls=torch.Size)
    if type(result) is dict and all(type(key) is str for key in result):
        made = DictVariable.new()
        for key, value in result.items():
            made.store(tx, tx.wrap(key), _wrap_item(output, tx, node, key, value))
        return made
    if isinstance(result, (tuple, list)):
        items = [_wrap_item(output, tx, node, i, v) for i, v in enumerate(result)]
        return _wrap_sequence(tx, type(result), items)
    return tx.wrap(result)


def _wrap_tensor(output: OutputGraph, fake: torch.Tensor, node: fx.Node | None) -> VariableTracker:
    known = output.variable_of(fake)
    if known is not None:
        return known
    if node is None:
        raise AssertionError("a tensor without variable comes from a node")
    output.numbers.know_sizes(fake, node)
    return output.remember(TensorVariable(node, fake))


def _wrap_item(output: OutputGraph, tx: Tx, node: fx.Node | None, index: int | str, item: Any) -> VariableTracker:
    new = any(output.variable_of(t) is None for t in tensors_in(item)) or any(map(needs_node, _leaves(item)))
    if node is not None and new:
        node = output.create_node("call_function", operator.getitem, (node, index), {}, item, removable=True)
    return wrap_result(output, tx, item, node)


def _wrap_sequence(tx: Tx, cls: type, items: list[VariableTracker]) -> VariableTracker:
    if cls is list:
        return ListVariable(items)
    if cls is tuple:
        return TupleVariable(items)
    if is_structseq(cls) or (hasattr(cls, "_fields") and cls.__dictoffset__ == 0):
        return TupleVariable(items, cls=cls)
    return tx.call(tx.wrap(cls), [ListVariable(items)])
