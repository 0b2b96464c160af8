"""What is known of a graph's inputs and outputs: where they come from, what they share, what is done to them.

Capture attaches a `GraphSignature` to each graph that a backend gets, and `aot_compile` to the forward, backward and
inference graphs that it makes of one; the parts of a graph that was cut have theirs too. `signature_of` reads it, and
derives what it can for any other graph.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins.graphs.symbols import Number, described
from graphwright_plugins.graphs.trial_run import written_inputs
from graphwright_plugins.graphs.values import has_value, node_value, output_values, storages_of, written_by_operators

SIGNATURE_KEY: Final = "graphwright_signature"
"""Where a GraphModule's `meta` holds its signature."""
_SHARED_KEY: Final = "graphwright_shared"


class GraphKind(enum.StrEnum):
    """Which graph of a program this is."""

    CAPTURED = "captured"
    """As it was captured, of calls to torch."""
    FORWARD = "forward"
    """The forward half of a captured graph, whose backward may run later."""
    BACKWARD = "backward"
    """The backward half."""
    INFERENCE = "inference"
    """A captured graph in operators, which no backward follows."""
    OTHER = "other"
    """From anywhere else; its signature is derived, and may lack what the graph itself does not tell."""


class InputKind(enum.StrEnum):
    """What an input is to the program."""

    PARAMETER = "parameter"
    """An `nn.Parameter`."""
    BUFFER = "buffer"
    """A buffer of a module."""
    CONSTANT = "constant"
    """Another tensor that nobody handed in: a global, one from a closure, an attribute of a module."""
    USER_INPUT = "user_input"
    """A tensor among the arguments of the captured function, or held by one."""
    NUMBER = "number"
    """A number that varies: a size, or an int or float that the program works with."""
    SAVED = "saved"
    """A value that the forward graph saved for this backward graph."""
    TANGENT = "tangent"
    """The gradient of an output of the forward graph."""
    RNG_STATE = "rng_state"
    """A seed or an offset of a random generator."""
    TOKEN = "token"
    """A token that orders effects."""
    INTERMEDIATE = "intermediate"
    """What another part computes, where the framework has cut the graph."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor's metadata."""

    shape: tuple[Number, ...]
    """Its sizes; those that vary as `SymbolicNumber`s, with the range they lie in."""
    stride: tuple[Number, ...]
    """Its strides; empty unless the layout is `torch.strided`."""
    dtype: torch.dtype
    """Its dtype."""
    device: torch.device
    """Its device."""
    requires_grad: bool
    """Whether a gradient flows to it."""
    storage_offset: Number = 0
    """Where it begins in its memory, in elements."""
    layout: torch.layout = torch.strided
    """Its layout."""


@dataclass(frozen=True)
class InputSignature:
    """One input of a graph."""

    name: str
    """The placeholder's name."""
    kind: InputKind
    """What it is to the program."""
    source: str = ""
    """Where the program has it, in its own terms: `"L['self'].layer.weight"`. Empty where nobody knows."""
    target: str = ""
    """Its name in the `state_dict` of the module that the function was given, for parameters, buffers and other tensors
    of modules: `"layer.weight"`. Empty for anything else."""
    tensor: TensorSpec | None = None
    """Its metadata; None for numbers and tokens."""
    number: Number | None = None
    """The number it is; None for tensors."""
    mutated: bool = False
    """Whether the graph writes to it, or to memory that it shares."""
    alias_group: int | None = None
    """The same number for inputs that share memory; None for one that shares none."""
    static_address: bool = False
    """Whether it is expected at the same address in each call: parameters, buffers, and what is marked by
    `mark_static_address`. One compiled graph may serve several modules of a class, and a program may replace a weight:
    whoever relies on the address compares `data_ptr()` and has a way out."""
    original: int | None = None
    """Which input of the captured graph it is, in a graph that was made of one, or is a part of it."""
    saved_output: int | None = None
    """Which output of the forward graph it is, in a backward graph."""
    tangent_of: int | None = None
    """Of which output of the forward graph it is the gradient, in a backward graph."""


@dataclass(frozen=True)
class OutputSignature:
    """One output of a graph."""

    name: str = ""
    """The node that gives it; empty for a literal."""
    tensor: TensorSpec | None = None
    """Its metadata; None for what is no tensor, or where it is not known."""
    number: Number | None = None
    """The number it is: a literal or a symbolic one."""
    is_none: bool = False
    """Whether it is None."""
    is_input: int | None = None
    """The input that it is, as the same object."""
    aliases_input: int | None = None
    """The first input whose memory it shares."""
    same_as: int | None = None
    """The first output that is the same value."""
    aliases_output: int | None = None
    """The first output before it whose memory it shares."""
    carries_mutation_of: int | None = None
    """The input whose new value it is: the caller copies it there, as the graph itself does not write."""
    original: int | None = None
    """Which output of the captured graph it is, in a graph that was made of one, or is a part of it."""
    saved: bool = False
    """Whether a forward graph hands it to its backward graph, and to nobody else."""
    gradient_of: int | None = None
    """Of which input of the captured graph it is the gradient, in a backward graph."""


@dataclass(frozen=True)
class Extent:
    """Which part of the program a captured graph covers."""

    function: str = ""
    """The captured function."""
    filename: str = ""
    """Its file."""
    lineno: int = 0
    """Its first line."""
    starts_midway: bool = False
    """Whether another graph, or the interpreter, did what comes before."""
    break_id: str = ""
    """The catalogue's id of the graph break that ended it; empty where it goes to the function's end."""
    why_ended: str = ""
    """What could not be captured, as a sentence."""
    ended_at: str = ""
    """Where that is, as `file:line`."""

    @property
    def is_whole(self) -> bool:
        """Whether the graph covers the function from its beginning to its end."""
        return not self.starts_midway and not self.break_id


@dataclass(frozen=True)
class GraphSignature:
    """A graph's inputs and outputs, in order."""

    kind: GraphKind
    """Which graph this is."""
    inputs: tuple[InputSignature, ...]
    """One for each placeholder."""
    outputs: tuple[OutputSignature, ...]
    """One for each output."""
    extent: Extent | None = None
    """Which part of the program it covers; None where nobody knows."""
    forward: GraphSignature | None = field(default=None, repr=False)
    """The forward graph that a backward graph belongs to."""
    part_of: GraphSignature | None = field(default=None, repr=False)
    """The whole graph, where the framework has cut it by what the backend supports, and this is a part."""

    def indices(self, *kinds: InputKind) -> tuple[int, ...]:
        """The positions of the inputs of these kinds."""
        return tuple(index for index, entry in enumerate(self.inputs) if entry.kind in kinds)

    def __iter__(self) -> Iterator[InputSignature]:
        return iter(self.inputs)


def attach_signature(graph: fx.GraphModule, signature: GraphSignature) -> GraphSignature:
    """Give a graph its signature, by position: names are taken from the graph. Returns what was attached."""
    nodes = graph.graph.find_nodes(op="placeholder")
    inputs = tuple(replace(entry, name=node.name) for entry, node in zip(signature.inputs, nodes, strict=True))
    attached = replace(signature, inputs=inputs)
    graph.meta[SIGNATURE_KEY] = attached
    return attached


def shared_of(graph: fx.GraphModule) -> dict[str, Any]:
    """A dict that the graphs made of one captured graph have in common, for whatever their backend wants to keep.

    The forward and the backward graph of a captured graph have the same one; any other graph has one of its own.
    """
    shared: dict[str, Any] = graph.meta.setdefault(_SHARED_KEY, {})
    return shared


def share(graph: fx.GraphModule, shared: dict[str, Any]) -> None:
    """Give a graph the dict that `shared_of` gives."""
    graph.meta[_SHARED_KEY] = shared


def signature_of(graph: fx.GraphModule, example_inputs: Sequence[Any] | None = None) -> GraphSignature:
    """What is known of a graph's inputs and outputs.

    Args:
        graph: The graph.
        example_inputs: Its inputs on fakes, for a graph without a signature whose placeholders have no values noted.

    Raises:
        ValueError: The graph calls torch functions, has no signature, and neither examples nor its nodes say what its
            inputs are.

    Returns:
        The signature that capture, `aot_compile` or the partitioner attached, as long as it fits the graph's inputs and
        outputs; or one derived from the graph, which knows parameters by their type, and no names of the program's.
    """
    return attached_signature(graph) or derived_signature(graph, example_inputs)


def attached_signature(graph: fx.GraphModule) -> GraphSignature | None:
    """The signature that a graph was given, as long as it fits; None without one."""
    attached = graph.meta.get(SIGNATURE_KEY)
    return attached if isinstance(attached, GraphSignature) and _fits(attached, graph) else None


def _fits(signature: GraphSignature, graph: fx.GraphModule) -> bool:
    count = len(graph.graph.find_nodes(op="placeholder"))
    return len(signature.inputs) == count and len(signature.outputs) == len(output_values(graph))


def derived_signature(
    graph: fx.GraphModule, example_inputs: Sequence[Any] | None = None, *, find_writes: bool = True
) -> GraphSignature:
    """The signature that a graph itself tells; without `find_writes` no input counts as mutated."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    values = list(example_inputs) if example_inputs is not None else [node_value(node) for node in placeholders]
    written = written_operands(graph, values) if find_writes else set()
    groups = alias_groups(values)
    inputs = tuple(
        input_signature(node.name, value, mutated=index in written, alias_group=group)
        for index, (node, value, group) in enumerate(zip(placeholders, values, groups, strict=True))
    )
    return GraphSignature(GraphKind.OTHER, inputs, output_signatures(graph, placeholders, values))


def written_operands(graph: fx.GraphModule, values: Sequence[Any]) -> set[int]:
    """The indices of the inputs that a graph writes to, those included that share memory with such a one."""
    placeholders = graph.graph.find_nodes(op="placeholder")
    known = written_by_operators(graph, values)
    if known is not None:
        return {index for index, node in enumerate(placeholders) if node in known}
    missing = [node.name for node, value in zip(placeholders, values, strict=True) if value is None]
    if missing:
        raise ValueError(
            f"nothing says what the graph's inputs {', '.join(missing)} are, so it is not known which inputs it writes "
            "to; give signature_of the example inputs too"
        )
    written = written_inputs(graph, values)
    groups = alias_groups(values)
    shared = {groups[index] for index in written} - {None}
    return written | {index for index, group in enumerate(groups) if group in shared}


def input_signature(name: str, value: Any, kind: InputKind | None = None, **facts: Any) -> InputSignature:
    """An input by its value on fakes; further facts as the fields of `InputSignature`."""
    if isinstance(value, torch.Tensor):
        is_parameter = isinstance(value, torch.nn.Parameter)
        kind = kind or (InputKind.PARAMETER if is_parameter else InputKind.USER_INPUT)
        facts.setdefault("static_address", kind in (InputKind.PARAMETER, InputKind.BUFFER))
        return InputSignature(name, kind, tensor=tensor_spec(value), **facts)
    number = described(value) if has_value(value) else None
    return InputSignature(
        name, kind or (InputKind.NUMBER if has_value(value) else InputKind.USER_INPUT), number=number, **facts
    )


def tensor_spec(tensor: torch.Tensor) -> TensorSpec:
    """A tensor's metadata."""
    strided = tensor.layout is torch.strided
    return TensorSpec(
        shape=tuple(map(described, tensor.shape)),
        stride=tuple(map(described, tensor.stride())) if strided else (),
        dtype=tensor.dtype,
        device=tensor.device,
        requires_grad=tensor.requires_grad,
        storage_offset=described(tensor.storage_offset()) if strided else 0,
        layout=tensor.layout,
    )


def alias_groups(values: Sequence[Any]) -> list[int | None]:
    """For each value a number that those share whose memory is the same; None for one that shares none."""
    return groups_by_memory([tuple(storages_of(value)) for value in values])


def groups_by_memory(memory: Sequence[Collection[int]]) -> list[int | None]:
    """As `alias_groups`, of the ids of the memory of each value."""
    holders: dict[int, list[int]] = {}
    for index, keys in enumerate(memory):
        for key in keys:
            holders.setdefault(key, []).append(index)
    groups: list[int | None] = [None] * len(memory)
    shared = [members for members in holders.values() if len(members) > 1]
    for number, members in enumerate(shared):
        for index in members:
            groups[index] = number
    return groups


def output_signatures(
    graph: fx.GraphModule,
    placeholders: Sequence[fx.Node],
    values: Sequence[Any],
    results: Mapping[fx.Node, Any] | None = None,
) -> tuple[OutputSignature, ...]:
    """The outputs of a graph.

    Args:
        graph: The graph.
        placeholders: Its placeholders.
        values: Their values, as they were when the graph began.
        results: What the nodes that it returns give; None for the values noted on them.
    """
    of_input = {node: index for index, node in enumerate(placeholders)}
    input_memory: dict[int, int] = {}
    for index, value in enumerate(values):
        for key in storages_of(value):
            input_memory.setdefault(key, index)
    output_memory: dict[int, int] = {}
    first: dict[fx.Node, int] = {}
    found = []
    for index, result in enumerate(output_values(graph)):
        if not isinstance(result, fx.Node):
            found.append(OutputSignature(is_none=result is None, number=result if has_value(result) else None))
            continue
        given = node_value(result) if results is None else results[result]
        value = values[of_input[result]] if result in of_input else given
        keys = list(storages_of(value))
        found.append(
            OutputSignature(
                name=result.name,
                tensor=tensor_spec(value) if isinstance(value, torch.Tensor) else None,
                number=described(value) if has_value(value) else None,
                is_input=of_input.get(result),
                aliases_input=next((input_memory[key] for key in keys if key in input_memory), of_input.get(result)),
                same_as=first.get(result),
                aliases_output=next((output_memory[key] for key in keys if key in output_memory), None),
            )
        )
        first.setdefault(result, index)
        for key in keys:
            output_memory.setdefault(key, index)
    return tuple(found)
