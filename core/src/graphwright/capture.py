"""One capture: everything its frames share, from the first instruction to the closed graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FunctionType

import graphwright.events as events
import graphwright.variables.base as base
from graphwright.builtin_calls import handlers as _handlers  # noqa: F401  registers them
from graphwright.codegen import argument_slots
from graphwright.effects import Effects
from graphwright.graph.output_graph import OutputGraph
from graphwright.guards.guard_set import GuardSet
from graphwright.settings import Settings
from graphwright.shapes.policy import ShapePolicy
from graphwright.sources import SourceRoots
from graphwright.symbolic.frame_state import CallStack
from graphwright.symbolic.translator import RootTranslator
from graphwright.trust import is_trusted_class
from graphwright.variables.cell import CellVariable
from graphwright.variables.dict import DictVariable
from graphwright.variables.finalizers import end_is_seen
from graphwright.wrap.wrapper import Wrapper

_INSTRUCTIONS_BEFORE_FIRST_OP = 20_000
"""After so many instructions without an operation the graph may as well break: a long loop over plain Python values
runs much faster in the interpreter, and translating it is felt."""


class CaptureState:
    """What one capture shares between all its frames.

    Args:
        is_whole: whether a graph break would be an error, so that none is made for what may go well.
        shapes: says which sizes and numbers become symbols; by default none that is not marked.
    """

    def __init__(self, settings: Settings, *, is_whole: bool = False, shapes: ShapePolicy | None = None) -> None:
        self.settings = settings
        self.is_whole = is_whole
        self.roots = SourceRoots()
        self.guards = GuardSet(self.roots)
        self.effects = Effects()
        self.wrapper: base.Wrapper = Wrapper()
        self.frames = CallStack(settings.instruction_limit, settings.inline_depth_limit)
        if not is_whole:
            self.frames.limit_before_first_op = _INSTRUCTIONS_BEFORE_FIRST_OP
        self.frames.tells_instructions = events.wants(events.InstructionTraced)
        self._modules: dict[str, tuple[str, type | str]] = {}
        self.output = OutputGraph(location=self.frames.stack_trace, module_stack=lambda: self._modules, shapes=shapes)

    def release(self) -> None:
        """Let go of the values of the call it was made for: they end when they do in eager, garbage or not."""
        self.frames.release()
        self.effects.release()
        self.output.release()
        self.guards.release()
        self.roots.release()

    @contextlib.contextmanager
    def module_scope(self, module: base.VariableTracker) -> Iterator[None]:
        """While entered, graph nodes belong to a call of this nn.Module."""
        before = self._modules
        name = str(module.source) if module.source is not None else module.type_name()
        cls = module.python_type()
        # By name where user code may drop the class: nothing that leads to code may live with the graph.
        kind = cls if is_trusted_class(cls) else f"{cls.__module__}.{cls.__qualname__}"
        self._modules = {**before, f"{name}@{len(before)}": (name, kind)}
        try:
            yield
        finally:
            self._modules = before


def root_translator(capture: CaptureState, function: FunctionType, args: tuple[object, ...]) -> RootTranslator:
    """The translator of a frame about to run.

    Args:
        args: the values of the argument slots, in the order of `co_varnames`.
    """
    code = function.__code__
    roots = capture.roots
    wrapper = capture.wrapper
    translator = RootTranslator(capture, code, {}, [], DictVariable.new())
    globals_variable = wrapper.wrap(translator, function.__globals__, roots.globals())
    assert isinstance(globals_variable, DictVariable)
    translator.globals = globals_variable
    cells = []
    for i, (name, cell) in enumerate(zip(code.co_freevars, function.__closure__ or (), strict=True)):
        variable = wrapper.wrap(translator, cell, roots.closure_cell(i, name))
        assert isinstance(variable, CellVariable)
        cells.append(variable)
    translator.closure = cells
    given_cells = _cell_arguments(translator)
    for i, (name, value) in enumerate(zip(argument_slots(code), args, strict=True)):
        source = roots.local(i, name)
        if name in given_cells:
            given = wrapper.wrap(translator, value, source)
            assert isinstance(given, CellVariable)
            translator.cells[name] = given
        else:
            translator.locals[name] = lazy = wrapper.lazy(translator, value, source)
            if end_is_seen(lazy):
                capture.frames.watched.append(lazy)
    return translator


def _cell_arguments(translator: RootTranslator) -> set[str]:
    """Own cells of the frame that nobody makes in it: a resume function gets them as arguments."""
    instructions = translator.instructions
    body = next(i.index for i in instructions if i.opname == "RESUME")  # after it stand some that nothing runs
    return set(translator.code.co_cellvars) - {i.argval for i in instructions[:body] if i.opname == "MAKE_CELL"}
