"""One graph in a folder, with all that a backend was given for it, so that the backend can be tried on it alone."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import fx

from graphwright_plugins.graphs.ambient_state import AmbientState
from graphwright_plugins.torch_compat import TORCH_VERSION, outside_tracing

from .saved_inputs import Code, encode_inputs
from .saved_values import NotSavable, decode, encode, function_by_name, function_name

_FORMAT: Final = 1


@dataclass(frozen=True)
class SavedGraph:
    """What a folder holds."""

    graph: fx.GraphModule
    """The graph."""
    inputs: Sequence[Code]
    """What is known of its inputs."""
    values: Sequence[Any] | None
    """The inputs themselves, where they were saved."""
    backend: str
    """The backend it was for."""
    options: Mapping[str, Any]
    """The options."""
    state: AmbientState
    """Grad mode and autocast under which it was compiled."""


def save_graph(
    folder: str | Path,
    graph: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    backend: str = "",
    options: object = None,
    inputs: Sequence[Any] | None = None,
) -> Path:
    """Save a graph for `python -m graphwright_plugins.replay`; nothing in the folder is run when it is loaded.

    Args:
        folder: Where to; made if it isn't there.
        graph: The graph, as a backend gets it.
        example_inputs: What it is compiled for, fakes or real.
        backend: The backend's name.
        options: Its options: a mapping, or the backend's dataclass.
        inputs: Real inputs in the order of the graph's, to be saved with their values. Without them a replay takes
            random ones.

    Returns:
        The folder.

    Raises:
        NotSavable: The graph calls what has no name in another process; the message says which node. Or its output is
            no tuple.
        ValueError: `inputs` do not fit the graph.
    """
    _check_output(graph)
    if inputs is not None:
        _check_fit(inputs, example_inputs)
    place = Path(folder)
    tensors: dict[str, torch.Tensor] = {}
    told = asdict(options) if is_dataclass(options) and not isinstance(options, type) else dict(_mapping(options))
    content = {
        "format": _FORMAT,
        "torch": TORCH_VERSION,
        "backend": backend,
        "options": {name: encode(value, _no_nodes) for name, value in told.items()},
        "state": encode(_state_items(AmbientState.current()), _no_nodes),
        "inputs": encode_inputs(example_inputs),
        "graph": _encode_graph(graph, tensors, ""),
    }
    place.mkdir(parents=True, exist_ok=True)
    (place / "graph.json").write_text(json.dumps(content, indent=1))
    (place / "graph.txt").write_text(graph.print_readable(print_output=False))
    values = None if inputs is None else [v.detach() if isinstance(v, torch.Tensor) else v for v in inputs]
    torch.save({"held": tensors, "inputs": values}, place / "tensors.pt")
    return place


def load_graph(folder: str | Path) -> SavedGraph:
    """Load what `save_graph` saved.

    Raises:
        NotSavable: There is no saved graph, it was saved in another format or is damaged, or it refers to a function
            that isn't there.
    """
    place = Path(folder)
    content, data = _read(place)
    grad, autocast, cache, nesting, kernels = decode(content["state"], {})
    return SavedGraph(
        graph=_decode_graph(content["graph"], data["held"], ""),
        inputs=content["inputs"],
        values=data["inputs"],
        backend=content["backend"],
        options={name: decode(code, {}) for name, code in content["options"].items()},
        state=AmbientState(grad, autocast, cache, nesting, kernels),
    )


def _read(place: Path) -> tuple[Any, Any]:
    """The two files of a folder that make a graph."""
    if not (place / "graph.json").is_file():
        there = "holds no graph.json" if place.is_dir() else "isn't there" if not place.exists() else "is no folder"
        raise NotSavable(f"there is no saved graph at {place}: it {there}. Name a folder that save_graph made")
    try:
        content = json.loads((place / "graph.json").read_text())
        version = content["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(place / "graph.json", error) from error
    if version != _FORMAT:
        raise NotSavable(f"{place} was saved in format {version}, and this version reads {_FORMAT}")
    try:
        with outside_tracing():
            return content, torch.load(place / "tensors.pt", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise _unreadable(place / "tensors.pt", error) from error


def _unreadable(file: Path, error: Exception) -> NotSavable:
    told = f"{type(error).__name__}: {error}".partition("\n")[0]
    return NotSavable(f"the saved graph can't be read: {file} is missing or damaged ({told}). Save the graph again")


def _check_output(graph: fx.GraphModule) -> None:
    """Refuse a graph that returns no tuple: a replay would take what it returns apart, or fail on it."""
    (output,) = graph.graph.output_node().args
    if not isinstance(output, (tuple, list)):
        raise NotSavable(
            f"save_graph: the graph returns {output}, and a backend's graphs return a tuple, also of one value: "
            "trace a function that returns one, or make the output node's argument `(value,)`"
        )


def _check_fit(inputs: Sequence[Any], example_inputs: Sequence[Any]) -> None:
    if len(inputs) != len(example_inputs):
        raise ValueError(f"save_graph: {len(inputs)} inputs were given, and the graph has {len(example_inputs)}")
    for place, (value, example) in enumerate(zip(inputs, example_inputs, strict=True)):
        if isinstance(value, torch.Tensor) and isinstance(example, torch.Tensor):
            sizes = [size if type(size) is int else own for size, own in zip(example.shape, value.shape, strict=False)]
            if value.dtype != example.dtype or list(value.shape) != sizes:
                raise ValueError(
                    f"save_graph: input {place} is a {value.dtype} of {tuple(value.shape)}, and the graph takes a "
                    f"{example.dtype} of {tuple(example.shape)}; inputs of a graph are in the order of its placeholders"
                )


def _mapping(options: object) -> Mapping[str, Any]:
    if options is None or isinstance(options, Mapping):
        return options or {}
    raise NotSavable(f"options must be a mapping or a dataclass, not {options!r}")


def _no_nodes(node: fx.Node) -> str:
    raise NotSavable(f"an option refers to the node {node.name} of a graph")


def _state_items(state: AmbientState) -> tuple[Any, ...]:
    return (
        state.grad_enabled,
        state.autocast,
        state.autocast_cache,
        state.autocast_nesting,
        state.attention_kernels,
    )


def _encode_graph(graph: fx.GraphModule, tensors: dict[str, torch.Tensor], prefix: str) -> Code:
    bodies: dict[str, Code] = {}
    nodes = []
    for node in graph.graph.nodes:
        try:
            nodes.append(_encode_node(node))
            if node.op == "get_attr":
                _encode_held(graph, str(node.target), tensors, bodies, prefix)
        except NotSavable as error:
            raise NotSavable(f"node {node.name} can't be saved: {error}") from error
    return {"nodes": nodes, "bodies": bodies}


def _encode_node(node: fx.Node) -> Code:
    target = {"text": node.target} if isinstance(node.target, str) else {"function": function_name(node.target)}
    if node.op == "call_module":
        raise NotSavable("it calls a module; graphs to save are flat")
    return {
        "op": node.op,
        "name": node.name,
        "target": target,
        "args": encode(node.args, lambda n: n.name),
        "kwargs": encode(node.kwargs, lambda n: n.name),
        "stack_trace": node.meta.get("stack_trace"),
    }


def _encode_held(
    graph: fx.GraphModule, name: str, tensors: dict[str, torch.Tensor], bodies: dict[str, Code], prefix: str
) -> None:
    value: Any = graph
    for part in name.split("."):
        value = getattr(value, part)
    if isinstance(value, torch.Tensor):
        tensors[prefix + name] = value.detach()
    elif isinstance(value, fx.GraphModule) and "." not in name:
        bodies[name] = _encode_graph(value, tensors, f"{prefix}{name}/")
    else:
        raise NotSavable(f"the graph holds {name}, a {type(value).__name__}")


def _decode_graph(code: Code, tensors: Mapping[str, torch.Tensor], prefix: str) -> fx.GraphModule:
    root = torch.nn.Module()
    for name, body in code["bodies"].items():
        setattr(root, name, _decode_graph(body, tensors, f"{prefix}{name}/"))
    graph = fx.Graph()
    nodes: dict[str, fx.Node] = {}
    for line in code["nodes"]:
        target = line["target"].get("text") or function_by_name(line["target"]["function"])
        if line["op"] == "get_attr" and prefix + target in tensors:
            _hold(root, target, tensors[prefix + target])
        args, kwargs = decode(line["args"], nodes), decode(line["kwargs"], nodes)
        node = nodes[line["name"]] = graph.create_node(line["op"], target, args, kwargs, line["name"])
        if line["stack_trace"]:
            node.meta["stack_trace"] = line["stack_trace"]
    return fx.GraphModule(root, graph)


def _hold(root: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
    *path, last = name.split(".")
    for part in path:
        if not hasattr(root, part):
            setattr(root, part, torch.nn.Module())
        root = getattr(root, part)
    if not hasattr(root, last):
        root.register_buffer(last, tensor)
