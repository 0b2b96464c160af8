"""The form in which a backend wants its graphs; the framework delivers it before `compile` is called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

from graphwright_plugins.errors import BackendContractError, DeclarationError
from graphwright_plugins.naming import backend_in_words
from graphwright_plugins.options.asking import asked_with_options
from graphwright_plugins.protocol import Backend, HasGraphForm
from graphwright_plugins.torch_compat import core_aten_decompositions, decompositions_by_name

from .form_checks import FLAGS, check_choice, check_decompositions, check_flags, check_keep, dtypes_of

Operators: TypeAlias = Collection[str] | Callable[[Any], bool]
"""Operators by name (`"aten.gelu.default"`, or `"aten.gelu"` for all of its overloads), or a function that is asked
for each."""


@dataclass(frozen=True)
class GraphForm:
    """What graphs look like when `Backend.compile` gets them. The defaults are graphs as they were captured.

    Raises:
        DeclarationError: A value that the field can't have, or values that don't go together.
    """

    level: Literal["torch", "aten"] = "torch"
    """`"torch"`: calls of torch functions and methods, one graph for forward and backward. `"aten"`: operators of
    torch's dispatcher after AOTAutograd, functional: `compile` is called for a forward graph, for its backward graph
    when the first backward pass runs at the latest, or for an inference graph; `signature_of(graph).kind` says which,
    and `shared_of(graph)` is a dict that the graphs made of one captured graph have in common. What `compile` returns
    may then be boxed; see `boxed`."""
    in_place: bool = False
    """At the level `"aten"`, whether inference graphs may end in `copy_` to the inputs that they change; otherwise new
    values come out as outputs, and the framework copies them."""
    decompositions: Literal["none", "core"] | Collection[str] | Mapping[Any, Callable[..., Any]] = "none"
    """Operators to break up, at the level `"aten"`: `"core"` for those outside of torch's core set, names, for which
    torch's own decompositions are taken, or a table of functions."""
    keep: Operators = ()
    """Operators to leave whole all the same. Those that torch itself breaks up in autograd, such as `linear`, can't
    be."""
    partition: Literal["default", "min_cut"] | Callable[..., Any] = "default"
    """At the level `"aten"`, how values to save for the backward are chosen; see `aot_compile`."""
    sizes: Literal["inputs", "from_tensors", "fixed"] = "inputs"
    """What becomes of sizes that vary. `"inputs"`: those that the program works with come as inputs of their own.
    `"from_tensors"`: no input is a size; the graph reads them off its tensors. Numbers that no tensor has among its
    sizes are fixed. A backward graph may have to take a size that none of its tensors has. `"fixed"`: nothing varies;
    each size that comes up is compiled for anew."""
    aliasing: bool = True
    """Whether outputs may be inputs, views of inputs or of each other, or the same value twice. Otherwise the framework
    leaves these out and makes them from what the compiled graph returns."""
    literals: bool = True
    """Whether outputs may be None or numbers that are known. Otherwise the framework puts them in."""
    contiguous: bool = False
    """Whether all input tensors are to be contiguous; others are copied at each call. Outputs may then have other
    strides than in eager: declare `Capabilities(strides=False)`."""
    dtypes: frozenset[torch.dtype] | None = None
    """Dtypes that tensors in the graph may have, None for all: a graph with others is unsupported, and the node that
    makes the first of them is named."""
    weights: Literal["inputs", "frozen", "refit"] = "inputs"
    """How parameters and buffers come where no gradient is asked for, and the graph leaves them as they are.
    `"inputs"`: as inputs. `"frozen"`: as constants; a guard notices when a weight is another tensor or has been written
    to, and the graph is compiled anew for those weights. `"refit"`: as constants too, and where a weight has been
    written to, `HasRefit.update_weights` is called. Writing through `weight.data` escapes notice, as in autograd."""

    def __post_init__(self) -> None:
        for name in ("level", "sizes", "weights"):
            check_choice(name, getattr(self, name))
        if not callable(self.partition):
            check_choice("partition", self.partition, "a function")
        check_flags({name: getattr(self, name) for name in FLAGS})
        check_decompositions(self.decompositions)
        check_keep(self.keep)
        object.__setattr__(self, "dtypes", dtypes_of(self.dtypes))
        if self.level == "torch" and (self.decompositions != "none" or self.keep):
            raise DeclarationError("decompositions and keep are of operators: they need the level 'aten'")
        if self.level == "torch" and self.in_place:
            raise DeclarationError(
                "in_place is about graphs of operators; at the level 'torch' graphs are as the user wrote them"
            )

    @property
    def is_as_captured(self) -> bool:
        """Whether graphs come as they were captured."""
        return self == _AS_CAPTURED

    def decomposition_table(self) -> dict[Any, Callable[..., Any]] | None:
        """The functions that replace operators, by operator."""
        wanted = self.decompositions
        if isinstance(wanted, str):
            table = {} if wanted == "none" else dict(core_aten_decompositions())
        else:
            table = dict(wanted) if isinstance(wanted, Mapping) else decompositions_by_name(wanted)
        return {op: function for op, function in table.items() if not self._keeps(op)} or None

    def _keeps(self, op: Any) -> bool:
        if callable(self.keep):
            return bool(self.keep(op))
        name = str(op)
        return name in self.keep or name.rpartition(".")[0] in self.keep


_AS_CAPTURED = GraphForm()


def form_of(backend: Backend, options: Any, told: str | None = None) -> GraphForm:
    """The form that a backend wants its graphs in, under these options.

    A backend that names none gets graphs as they were captured, of fixed sizes if it declares no dynamic shapes.

    Args:
        backend: The backend.
        options: Its options.
        told: The backend in words, for messages: `"backend 'name' of some-package 1.0"`.

    Raises:
        BackendContractError: What the backend names is no `GraphForm`, or its function raised.
    """
    if not isinstance(backend, HasGraphForm):
        return _AS_CAPTURED if backend.capabilities.dynamic_shapes else GraphForm(sizes="fixed")
    whose = told or backend_in_words(backend.name)
    form = asked_with_options("graph_form", backend.graph_form, GraphForm, options, whose)
    if not isinstance(form, GraphForm):
        raise BackendContractError(f"{whose} has a graph_form of type {type(form).__name__} instead of GraphForm")
    return form
