"""A compiled graph whose weights are constants, under a guard: each call compares the weights it is given.

One compiled graph serves all modules of a class, so there is a row for each set of weights, with what was compiled for
it. A row goes when one of its weights does. It refers to them weakly; what was compiled holds the data.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter, methodcaller
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import fx

from graphwright_plugins.errors import UnsupportedGraph
from graphwright_plugins.signature import GraphSignature
from graphwright_plugins.torch_compat import count_of_assumptions, has_version, shape_env_of_inputs

from .weights import OfferedValues, WeightsChange, tell_change

Exchange: TypeAlias = Callable[[Mapping[int, torch.Tensor]], None]
"""Exchanges weights in what was compiled, by the positions of the inputs that they were, or raises UnsupportedGraph."""
CompileWith: TypeAlias = Callable[[Mapping[int, torch.Tensor]], tuple[Callable[..., Any], Exchange | None]]
"""Compiles a graph with these of its inputs constants; gives that and, where they can be exchanged, what does it."""
Action: TypeAlias = Literal["compiled anew", "refitted", "weights as inputs", "runs in eager"]

MAX_ROWS: Final = 32
"""So many sets of weights are compiled for; where there are more, they are inputs."""
MAX_CHANGES: Final = 8
"""So often a graph is compiled anew for weights that were written to; after that they are inputs."""

_version = attrgetter("_version")
_address = methodcaller("data_ptr")


class _Row:
    """What was compiled for one set of weights."""

    def __init__(
        self, weights: Sequence[torch.Tensor], function: Callable[..., Any], exchange: Exchange | None
    ) -> None:
        self.function = function
        self.exchange = exchange
        self.watched: list[weakref.ref[torch.Tensor]] = []
        self.ids = tuple(map(id, weights))
        self.note(weights)

    def note(self, weights: Sequence[torch.Tensor]) -> None:
        """Remember the values that weights have now, by version and address."""
        self.versions = tuple(map(_version, weights))
        self.addresses = tuple(map(_address, weights))

    def changed(self, weights: Sequence[torch.Tensor]) -> list[int]:
        """Which of the weights have other values than were noted, by position."""
        noted = zip(weights, self.versions, self.addresses, strict=True)
        return [i for i, (w, version, at) in enumerate(noted) if _version(w) != version or _address(w) != at]

    def fits(self, weights: Sequence[torch.Tensor]) -> bool:
        """Whether these are the weights, unchanged."""
        return (
            tuple(map(id, weights)) == self.ids
            and tuple(map(_version, weights)) == self.versions
            and tuple(map(_address, weights)) == self.addresses
        )


class FrozenGraph:
    """A graph compiled for the weights of each call.

    Args:
        graph: The graph.
        example_inputs: Its inputs on fakes.
        weights: Which of its inputs are the weights.
        compile_with: Compiles it with some inputs constants, in a tracing context of its own making.
    """

    def __init__(
        self,
        graph: fx.GraphModule,
        example_inputs: Sequence[Any],
        signature: GraphSignature,
        weights: Sequence[int],
        compile_with: CompileWith,
    ) -> None:
        self._graph = graph
        self._env = shape_env_of_inputs(example_inputs)
        self._signature = signature
        self._places = tuple(weights)
        self._pick: Callable[[Sequence[Any]], tuple[Any, ...]]
        only = self._places[0]
        self._pick = itemgetter(*self._places) if len(self._places) > 1 else lambda inputs: (inputs[only],)
        self._compile_with = compile_with
        self._rows: OrderedDict[tuple[int, ...], _Row] = OrderedDict()
        self._latest: _Row | None = None
        self._rest: Callable[..., Any] | None = None
        """What runs for weights without a row, once there are to be no more rows."""
        self._changes = 0
        self._lock = threading.RLock()
        self._offered = OfferedValues(())

    def begin(self, offered: OfferedValues, values: Sequence[Any]) -> None:
        """Compile for the weights of the call that the graph was captured in."""
        self._offered = OfferedValues((), offered.around)
        weights = self._pick(values)
        self._add(weights, *self._compile_with(dict(zip(self._places, weights, strict=True))))

    def __call__(self, *inputs: Any) -> Any:
        """Run what was compiled for the weights among these inputs."""
        weights = self._pick(inputs)
        row = self._latest
        if row is not None and row.fits(weights):
            return row.function(*inputs)
        return self._function_for(weights)(*inputs)

    def _function_for(self, weights: tuple[torch.Tensor, ...]) -> Callable[..., Any]:
        with self._lock:
            row = self._rows.get(tuple(map(id, weights)))
            if row is not None and row.fits(weights):
                self._latest = row
                return row.function
            return self._renewed(weights, row)

    def _renewed(self, weights: tuple[torch.Tensor, ...], row: _Row | None) -> Callable[..., Any]:
        """Do what a change asks for, and say so; under the lock."""
        if row is None and self._rest is not None:
            return self._rest
        if row is not None:
            changed = row.changed(weights)
            why_not = self._exchange(row, weights, changed)
            if why_not is None:
                return row.function
            self._changes += 1
            if self._changes > MAX_CHANGES:
                self._rows.clear()
                self._latest = None
                return self._give_up(weights, changed, "written to", f"they changed {self._changes} times")
            return self._compiled_anew(weights, changed, "written to", why_not)
        everything = range(len(weights))
        if len(self._rows) >= MAX_ROWS:
            return self._give_up(weights, everything, "replaced", f"there are more than {MAX_ROWS} sets of them")
        return self._compiled_anew(weights, everything, "replaced")

    def _exchange(self, row: _Row, weights: Sequence[torch.Tensor], changed: Sequence[int]) -> str | None:
        """Exchange weights in what was compiled; or say why not, empty where nobody expects that."""
        if row.exchange is None:
            return ""
        try:
            with self._offered.around():
                row.exchange({self._places[i]: weights[i] for i in changed})
        except UnsupportedGraph as error:
            return str(error)
        row.note(weights)
        self._latest = row
        self._tell(changed, "written to", "refitted")
        return None

    def _compiled_anew(
        self,
        weights: tuple[torch.Tensor, ...],
        changed: Sequence[int],
        how: Literal["replaced", "written to"],
        why: str = "",
    ) -> Callable[..., Any]:
        made, fault = self._compile(dict(zip(self._places, weights, strict=True)))
        if made is None:
            return self._in_eager(changed, how, fault)
        self._tell(changed, how, "compiled anew", why)
        return self._add(weights, *made).function

    def _give_up(
        self, weights: Sequence[torch.Tensor], changed: Sequence[int], how: Literal["replaced", "written to"], why: str
    ) -> Callable[..., Any]:
        made, fault = self._compile({})
        if made is None:
            return self._in_eager(changed, how, fault)
        self._rest = made[0]
        self._tell(changed, how, "weights as inputs", why)
        return made[0]

    def _in_eager(self, changed: Sequence[int], how: Literal["replaced", "written to"], why: str) -> Callable[..., Any]:
        self._rest = self._graph.forward
        self._tell(changed, how, "runs in eager", why)
        return self._rest

    def _compile(
        self, constants: Mapping[int, torch.Tensor]
    ) -> tuple[tuple[Callable[..., Any], Exchange | None] | None, str]:
        """Compile while the program runs; or None, and why that has come to nothing."""
        before = count_of_assumptions(self._env)
        try:
            with self._offered.around():
                made = self._compile_with(constants)
        except UnsupportedGraph as error:
            return None, str(error)
        if count_of_assumptions(self._env) > before:  # nobody would check it: the guards are made
            return None, "compiling it for other weights assumes more of the sizes"
        return made, ""

    def _add(self, weights: tuple[torch.Tensor, ...], function: Callable[..., Any], exchange: Exchange | None) -> _Row:
        row = _Row(weights, function, exchange)
        self._rows[row.ids] = row
        self._latest = row
        known = weakref.ref(self)

        def drop(_: object) -> None:
            frozen = known()
            if frozen is not None:
                frozen._drop(row)

        row.watched = [weakref.ref(weight, drop) for weight in weights]
        return row

    def _drop(self, row: _Row) -> None:
        """Forget a row one of whose weights is gone: its id may come to mean another tensor.

        Called by the garbage collector, in any thread and whatever that holds, so it waits for no lock.
        """
        if self._rows.get(row.ids) is row:
            self._rows.pop(row.ids, None)
        if self._latest is row:
            self._latest = None

    def _tell(
        self, changed: Sequence[int], how: Literal["replaced", "written to"], action: Action, reason: str = ""
    ) -> None:
        inputs = [self._signature.inputs[self._places[i]] for i in changed]
        function = self._signature.extent.function if self._signature.extent is not None else ""
        tell_change(WeightsChange(function, tuple(e.source or e.name for e in inputs), how, action, reason))


def can_be_frozen(values: Sequence[Any]) -> bool:
    """Whether a change of these tensors can be noticed: tensors made in inference mode count no changes."""
    return all(isinstance(value, torch.Tensor) and has_version(value) for value in values)
