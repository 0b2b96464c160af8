"""`torch.cond`: a branch that the graph takes by the value of a tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

import graphwright.graph_breaks as gb
from graphwright.builtin_calls.registry import handles
from graphwright.builtin_calls.transforms import bound_arguments
from graphwright.torch_compat import storage_key, transforms_active
from graphwright.variables.base import Kwargs, Tx, VariableTracker
from graphwright.variables.bodies import TracedBody, trace_body
from graphwright.variables.sequence import ListVariable, TupleVariable
from graphwright.variables.structures import leaves_of, map_structure, variables_of
from graphwright.variables.tensor import TensorVariable

VTs = list[VariableTracker]
_COND = torch.ops.higher_order.cond


@handles(torch.cond)
def cond(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
    """Both branches become bodies with the same operands."""
    given = bound_arguments(tx, torch.cond, args, kwargs)
    operands = _operands(tx, given.get("operands"))
    condition = given["pred"]
    branches = given["true_fn"], given["false_fn"]
    if not isinstance(condition, TensorVariable):
        if type(condition.as_python_constant()) not in (bool, int, float):
            tx.graph_break(gb.TORCH_OP_FAILED, f"torch.cond on a {condition.type_name()}")
        return tx.call(branches[0] if condition.truth(tx) else branches[1], operands)
    if transforms_active() or condition.fake.numel() != 1:
        tx.graph_break(gb.HIGHER_ORDER, "torch.cond under a function transform, or on a tensor of several elements")
    bodies = [_branch(tx, branch, operands) for branch in branches]
    _check_alike(tx, *bodies)
    return _put(tx, condition, bodies)


def _operands(tx: Tx, given: VariableTracker | None) -> VTs:
    if given is None:
        return []
    if not isinstance(given, (TupleVariable, ListVariable)):
        tx.graph_break(gb.TORCH_OP_FAILED, f"torch.cond with operands in a {given.type_name()}")
    return list(given.items)


def _branch(tx: Tx, branch: VariableTracker, operands: VTs) -> TracedBody:
    body = trace_body(tx, "torch.cond", [branch, *operands], lambda: tx.call(branch, operands), flat=True)
    outside = {storage_key(node.meta["example_value"]) for node in body.operands if _is_tensor(node)}
    made = [storage_key(leaf) for leaf in leaves_of(body.result) if isinstance(leaf, torch.Tensor)]
    if outside.intersection(made) or len(set(made)) < len(made):
        tx.graph_break(gb.HIGHER_ORDER, "torch.cond with a branch that returns a tensor it got, or one twice")
    return body


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta["example_value"], torch.Tensor)


def _metadata(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return (value.shape, value.stride(), value.storage_offset(), value.dtype, value.device, value.layout)


def _check_alike(tx: Tx, first: TracedBody, second: TracedBody) -> None:
    if map_structure(first.result, _metadata) != map_structure(second.result, _metadata):
        tx.graph_break(gb.HIGHER_ORDER, "torch.cond with branches whose results differ in structure or metadata")


def _put(tx: Tx, condition: TensorVariable, bodies: list[TracedBody]) -> VariableTracker:
    output = tx.capture.output
    operands = tuple(dict.fromkeys(node for body in bodies for node in body.operands))
    modules = [_with_operands(body, operands) for body in bodies]
    fakes = tuple(node.meta["example_value"] for node in operands)
    results = iter(output.run_fake(tx, _COND, condition.fake, *modules, fakes, what="torch.cond"))
    result = map_structure(bodies[0].result, lambda v: next(results) if isinstance(v, torch.Tensor) else v)
    nodes = tuple(output.body_node(module) for module in modules)
    flat = tuple(leaf for leaf in leaves_of(result) if isinstance(leaf, torch.Tensor))
    parts = iter(output.call_with_body(tx, _COND, (condition.node, *nodes, operands), flat).unpack(tx))
    return variables_of(tx, result, lambda _: next(parts))


def _with_operands(body: TracedBody, operands: tuple[fx.Node, ...]) -> fx.GraphModule:
    """The body, taking these operands, of which it uses some."""
    old = body.module.graph
    own = dict(zip(body.operands, (node for node in old.nodes if node.op == "placeholder"), strict=True))
    graph = fx.Graph()
    known = {own.get(node, node): graph.placeholder(node.name) for node in operands}
    graph.output(graph.graph_copy(old, known))
    return fx.GraphModule(body.module, graph, class_name="Body")
