"""Writes the replacement code of a frame: call the graph, replay effects, build what is live, return.

Operations are recorded first and assembled at the end, because which graph outputs and which outside values are needed
is known only when all of them have been asked for.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from graphwright.bytecode import CodeBuilder, Label
from graphwright.sources import Source, SourceRoots
from graphwright.trust import is_trusted_class, is_trusted_module
from graphwright.variables.argument_binding import Parameters
from graphwright.variables.base import LazyVariable, NotReconstructible, VariableTracker
from graphwright.variables.container import ContainerVariable
from graphwright.variables.symbolic import is_symbolic
from graphwright.variables.tensor import TensorVariable

INPUTS, EXTRAS, OUTPUTS = "__graph_inputs", "__outside_values", "__graph_outputs"
_LOAD_SOURCE = "load_source"
_DELETE_TEMPORARIES = "delete_temporaries"
_HEAP_TYPE = 1 << 9
"""Flag of classes that are made at run time, and may die."""


class Codegen:
    """Records the code that builds values, and assembles it.

    Args:
        code: the code that is replaced.
    """

    def __init__(self, roots: SourceRoots, code: types.CodeType | None = None) -> None:
        self._roots = roots
        self._code = code
        self._ops: list[tuple[str | Callable[[CodeBuilder], None], tuple[Any, ...]]] = []
        self._temps: dict[VariableTracker, str] = {}
        self._fixed: tuple[str, ...] = ()
        self._in_progress: set[VariableTracker] = set()
        self.output_nodes: dict[torch.fx.Node, int] = {}
        self.sources: dict[Source, None] = {}
        self.own_cells: dict[VariableTracker, str] = {}
        """Cells that the replacement frame itself makes, by variable."""

    # ---------------------------------------------------------- the Emitter protocol

    def op(self, name: str, *args: Any) -> None:
        """Record one operation of `CodeBuilder`."""
        self._ops.append((name, args))

    def later(self, emit: Callable[[CodeBuilder], None]) -> None:
        """Record a function that emits into the builder itself."""
        self._ops.append((emit, ()))

    def load_constant(self, value: object) -> None:
        """Push an object that lives with the code; one that user code may drop is held weakly.

        The code lives with the code that it replaces, where the garbage collector does not look: whatever led back from
        here to that would never be freed.
        """
        if _may_be_dropped(value) or (self._code is not None and _holds_code(value, self._code)):
            self.load_source(self._roots.object(value))
        else:
            self._ops.append(("load_const", (value,)))

    def load_late_constant(self, value: object) -> None:
        """As `load_constant`, and usable after `delete_temporaries`: what user code may drop is asked for anew."""
        if _may_be_dropped(value) or (self._code is not None and _holds_code(value, self._code)):
            self._ops.append(("load_const", (weakref.ref(value),)))
            self.op("call", 0)
        else:
            self._ops.append(("load_const", (value,)))

    def load_source(self, source: Source) -> None:
        """Push what `source` gave when the guards were checked."""
        self.sources.setdefault(source)
        self.op(_LOAD_SOURCE, source)

    def load_class(self, cls: type) -> None:
        """Push a class; one that user code may drop is held weakly."""
        if cls.__flags__ & _HEAP_TYPE:
            self.load_source(self._roots.object(cls))
        else:
            self.load_constant(cls)

    def load_output(self, node: torch.fx.Node) -> None:
        """Push what the graph gives for a node."""
        position = self.output_nodes.setdefault(node, len(self.output_nodes))
        self.op("load_fast", OUTPUTS)
        self.op("load_const", position)
        self.op("binary_subscr")

    def remember(self, value: VariableTracker) -> None:
        """Store the top of stack as the value of a variable and leave it on the stack."""
        name = f"__value_{len(self._temps)}"
        self._temps[value] = name
        self.op("copy", 1)
        self.op("store_fast", name)

    def __call__(self, value: VariableTracker) -> None:
        """Push the value of a variable."""
        source = value.source
        if source is not None and (_nobody_looked_at(value) or is_symbolic(value) or not _is_literal_constant(value)):
            self.load_source(source)
            return
        value = value.realize()
        if value in self.own_cells:
            self.op("load_closure", self.own_cells[value])
        elif value in self._temps:
            self.op("load_fast", self._temps[value])
        elif isinstance(value, TensorVariable):
            self._graph_output(value)
        elif is_symbolic(value) or (value.is_python_constant() and not _is_made_anew(value)):
            value.reconstruct(self)
        else:
            self._build(value)

    def try_to_push(self, value: VariableTracker) -> bool:
        """Push the value of a variable, or do nothing where it cannot be built."""
        ops, temps, in_progress = len(self._ops), dict(self._temps), set(self._in_progress)
        outputs, sources = dict(self.output_nodes), dict(self.sources)
        try:
            self(value)
        except NotReconstructible:
            del self._ops[ops:]
            self._temps, self._in_progress = temps, in_progress
            self.output_nodes, self.sources = outputs, sources
            return False
        return True

    def _build(self, value: VariableTracker) -> None:
        if value in self._in_progress:
            raise NotReconstructible(value)
        self._in_progress.add(value)
        value.reconstruct(self)
        self._in_progress.discard(value)
        if value not in self._temps:
            self.remember(value)

    def _graph_output(self, value: TensorVariable) -> None:
        if value.source is not None:
            self.load_source(value.source)
            return
        self.load_output(value.node)
        if value.attributes:
            self.remember(value)
            value.replay(self)

    # ---------------------------------------------------------- assembling

    def set_state(self, calls: Sequence[tuple[Any, tuple[Any, ...]]]) -> None:
        """Call functions that set the thread's state, right after the graph."""
        first: list[tuple[str | Callable[[CodeBuilder], None], tuple[Any, ...]]] = []
        for function, args in calls:
            first += [("load_const", (value,)) for value in (function, *args)]
            first += [("call", (len(args),)), ("pop_top", ())]
        self._ops[:0] = first

    def extras(self, inputs: Sequence[Source]) -> list[Source]:
        """The sources that the code loads and that are no graph inputs, in slot order."""
        known = set(inputs)
        return [source for source in self.sources if source not in known]

    def delete_temporaries(self) -> None:
        """Drop what only the building of values needs, before code runs that may look at its own variables."""
        self.op(_DELETE_TEMPORARIES)

    def _emit_deletions(self, builder: CodeBuilder) -> None:
        for name in (*self._fixed, *self._temps.values()):
            builder.delete_fast(name)

    def emit_into(
        self,
        builder: CodeBuilder,
        graph_call: Any,
        inputs: Sequence[Source],
        emit_failure: Callable[[CodeBuilder, Label], None] | None = None,
    ) -> None:
        """Emit the graph call and everything recorded.

        Args:
            graph_call: the compiled graph, called with the graph inputs, or None where there is no graph.
            inputs: the sources of the graph inputs, in order.
            emit_failure: emits, at the label that it is given, what is done when the graph raises.
        """
        self._fixed = (INPUTS, EXTRAS) if graph_call is None else (INPUTS, EXTRAS, OUTPUTS)
        failed = Label("the graph raised")
        if graph_call is not None:
            protection = builder.try_begin(failed) if emit_failure is not None else None
            builder.load_const(graph_call)
            builder.load_fast(INPUTS)
            builder.call_ex()
            if protection is not None:
                builder.try_end(protection)
            builder.store_fast(OUTPUTS)
        self._emit_ops(builder, inputs)
        if graph_call is not None and emit_failure is not None:
            emit_failure(builder, failed)

    def _emit_ops(self, builder: CodeBuilder, inputs: Sequence[Source]) -> None:
        places = {source: (EXTRAS, i) for i, source in enumerate(self.extras(inputs))}
        places.update({source: (INPUTS, i) for i, source in enumerate(inputs)})
        for name, args in self._ops:
            if name == _LOAD_SOURCE:
                held_in, position = places[args[0]]
                builder.load_fast(held_in)
                builder.load_const(position)
                builder.binary_subscr()
            elif name == _DELETE_TEMPORARIES:
                self._emit_deletions(builder)
            elif isinstance(name, str):
                getattr(builder, name)(*args)
            else:
                name(builder)


def _may_be_dropped(value: object) -> bool:
    if isinstance(value, types.ModuleType):
        return sys.modules.get(value.__name__) is not value
    if isinstance(value, types.FunctionType):
        return not is_trusted_module(value.__module__)
    cls = value if isinstance(value, type) else type(value)
    made_in_python = cls.__flags__ & _HEAP_TYPE and isinstance(cls.__module__, str)
    return bool(made_in_python) and not is_trusted_class(cls)


def _holds_code(value: object, code: types.CodeType) -> bool:
    """Whether a value is the code, or that of a function around it."""
    if value is code:
        return True
    return isinstance(value, types.CodeType) and any(_holds_code(constant, code) for constant in value.co_consts)


def argument_slots(code: types.CodeType) -> tuple[str, ...]:
    """The names of the argument slots, in the order of `co_varnames`."""
    parameters = Parameters.of(code)
    rest = [n for n in (parameters.varargs, parameters.varkw) if n is not None]
    return (*parameters.positional, *parameters.keyword_only, *rest)


def _nobody_looked_at(value: VariableTracker) -> bool:
    return isinstance(value, LazyVariable) and not value.is_realized()


def _is_made_anew(value: VariableTracker) -> bool:
    """Whether code that pushes a constant makes another object each time: who asks twice must get the same one."""
    return isinstance(value, ContainerVariable)


def _is_literal_constant(value: VariableTracker) -> bool:
    value = value.realize()
    return value.is_python_constant() and type(value.as_python_constant()) in (int, float, bool, str, type(None), bytes)
