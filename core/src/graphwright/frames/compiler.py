"""Captures one frame: translates it, closes the graph, writes the code, builds the guards."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from types import FunctionType

import graphwright._native as _native
import graphwright.events as events
import graphwright.graph_breaks as gb
from graphwright.bytecode import CodeBuilder
from graphwright.cache_key import CacheKey
from graphwright.capture import CaptureState, root_translator
from graphwright.codegen import EXTRAS, INPUTS, Codegen, argument_slots
from graphwright.exc import BackendCompilerFailed, GraphBreak, InternalError, drop_tracebacks
from graphwright.frames.backend_call import BackendCall
from graphwright.frames.break_code import BreakCode
from graphwright.frames.continuation import break_inside, innermost_resumable
from graphwright.frames.graph_failure import GraphFailure, made_cells
from graphwright.frames.guards import FrameGuards
from graphwright.graph.ambient_state import AmbientState
from graphwright.graph.finished_graph import graph_name
from graphwright.graph.graph_call import (
    random_generators,
    restoring_random_state,
)
from graphwright.graph.graph_signature import Frame
from graphwright.resume import RESUME_FUNCTIONS
from graphwright.shapes.policy import ShapePolicy
from graphwright.shapes.seen import SeenShapes
from graphwright.symbolic.frame_state import Returned
from graphwright.symbolic.translator import RootTranslator, Translator
from graphwright.torch_compat import refuses_symbolic_floats
from graphwright.variables.base import NotReconstructible, VariableTracker
from graphwright_plugins import Extent, GraphReport

Convert = Callable[[FunctionType, tuple[object, ...], CacheKey], object]


class FrameCompiler:
    """Makes the entry of one frame.

    Args:
        args: the values of the argument slots.
        site: which capture of which function it is.
        convert: captures frames; resume functions are compiled with it.
        seen: the sizes and numbers that earlier captures of the code met.
    """

    def __init__(
        self,
        function: FunctionType,
        args: tuple[object, ...],
        key: CacheKey,
        site: events.CaptureSite,
        convert: Convert,
        seen: SeenShapes | None = None,
    ) -> None:
        self._function = function
        self._code = function.__code__
        self._args = args
        self._key = key
        self._convert = convert
        self._seen = seen or SeenShapes()
        self._captures: list[CaptureState] = []
        self.is_empty = False
        """Whether the entry that was made has no graph."""
        self.fixed: dict[str, str] = {}
        """The sizes and numbers that the program asked for, each with where it did."""
        self.reports: tuple[GraphReport, ...] = ()
        """What became of the graph at the backend."""
        self._site = site

    def compile(self) -> _native.Entry:
        """Make the entry.

        Raises:
            GraphBreak: the frame is to be left to the interpreter: the graph may not break (`fullgraph`), or it breaks
                where nothing can be captured.
            BackendCompilerFailed: the backend raised.
        """
        try:
            return self._compile()
        except BackendCompilerFailed as failure:
            if not refuses_symbolic_floats(failure.__cause__):
                raise
            self._site.tell(
                events.MechanismOff,
                mechanism="symbolic floats",
                reason=f"backend {self._key.backend_name!r} cannot compile {self._code.co_qualname} with them",
                remedy="pass numbers that change from call to call as tensors",
            )
            self._seen.fix_floats()
            return self._compile()

    def release(self) -> None:
        """Let go of all that belongs to the call which the entry was made for."""
        for capture in self._captures:
            capture.release()
        self._captures.clear()
        self._args = ()

    def _compile(self) -> _native.Entry:
        before = AmbientState.current()
        try:
            capture, translator = self._start()
            try:
                outcome = translator.translate()
                if not isinstance(outcome, Returned):
                    raise InternalError(f"translation of {self._code.co_qualname} stopped at {outcome}")
                return self._close_whole(capture, translator, outcome.value)
            except GraphBreak as signal:
                if self._key.fullgraph or translator.broken_step is None:
                    raise
                before.install()
                inside = self._compile_inside(signal, before)
                entry = inside or self._compile_up_to(signal, translator.broken_step, before)
                drop_tracebacks(signal)
                return entry
        finally:
            before.install()

    def _start(self) -> tuple[CaptureState, RootTranslator]:
        settings = self._key.settings
        dynamic = self._key.dynamic
        shapes = ShapePolicy(
            True if dynamic is None and not settings.assume_static_by_default else dynamic,
            settings.automatic_dynamic_shapes,
            self._seen,
            resumes=self._code in RESUME_FUNCTIONS,
            captures_values=settings.capture_scalar_outputs,
            captures_sizes=settings.capture_dynamic_output_shape_ops,
        )
        capture = CaptureState(settings, is_whole=self._key.fullgraph, shapes=shapes)
        capture.output.frame = Frame(self._args, self._extent())
        self._captures.append(capture)
        return capture, root_translator(capture, self._function, self._args)

    def _extent(self, end: GraphBreak | None = None) -> Extent:
        """Which part of the program a graph covers that this graph break ended."""
        extent = Extent(
            self._site.function,
            self._code.co_filename,
            self._code.co_firstlineno,
            starts_midway=self._code in RESUME_FUNCTIONS,
        )
        if end is None:
            return extent
        at = end.location or self._site.location
        why = f"{end.kind.title}: {end.detail}"
        return dataclasses.replace(extent, break_id=end.kind.gw_id, why_ended=why, ended_at=f"{at.filename}:{at.line}")

    def _compile_inside(self, signal: GraphBreak, before: AmbientState) -> _native.Entry | None:
        """Break the graph inside an inlined call, so that what its callers captured is kept; None where it can't be."""
        frames: tuple[Translator, ...] = signal.frames[::-1]
        if len(frames) < 2 or signal.kind is gb.HIGHER_ORDER:
            return None
        stop_in = innermost_resumable(frames)
        if stop_in.parent is None:
            return None
        capture, translator = self._start()
        frame = translator.translate_until(stop_in.began)
        codegen = Codegen(capture.roots, self._code)
        try:
            if capture.effects.misplaced_call() is not None:
                before.install()
                return None
            ending = break_inside(frame, self._key, self._convert)
            ending.adopt_cells(codegen)
            _emit_effects(capture, codegen)
            ending.emit_state(codegen)
        except NotReconstructible:
            before.install()
            return None
        return self._break_here(signal, capture, codegen, ending)

    def _compile_up_to(self, signal: GraphBreak, step: int, before: AmbientState) -> _native.Entry:
        """Translate again, stop before the instruction that breaks the graph, and go on from there in eager."""
        capture, translator = self._start()
        translator.translate(stop_at=step)
        misplaced = capture.effects.misplaced_call()
        if misplaced is not None:
            before.install()
            return self._compile_up_to(misplaced.break_instead, misplaced.break_instead.step, before)
        codegen = Codegen(capture.roots, self._code)
        ending = BreakCode(translator, self._key, self._convert)
        ending.adopt_cells(codegen)
        try:
            _emit_effects(capture, codegen)
            ending.emit_state(codegen)
        except NotReconstructible as unbuildable:
            raised_at = translator.raise_steps.get(unbuildable.variable)
            if raised_at is not None:  # what is raised in eager has its traceback
                before.install()
                return self._compile_up_to(signal, raised_at, before)
            detail = f"{unbuildable.variable}, needed after a graph break ({signal.kind.gw_id}: {signal.detail})"
            translator.graph_break(gb.CANNOT_RECONSTRUCT, detail)
        return self._break_here(signal, capture, codegen, ending)

    def _break_here(
        self, signal: GraphBreak, capture: CaptureState, codegen: Codegen, ending: BreakCode
    ) -> _native.Entry:
        self._site.tell(
            events.GraphBroke,
            kind=signal.kind,
            detail=signal.detail,
            user_stack=signal.user_stack,
            location=signal.location or self._site.location,
        )
        capture.output.frame = Frame(self._args, self._extent(signal))
        builder = ending.builder(self._builder_arguments())
        # Functions that a transform or a checkpoint runs must run the same way each time it calls them.
        hooked = ending.needs_hook() and signal.hooked and signal.kind is not gb.HIGHER_ORDER
        return self._build(capture, codegen, builder, hooked)

    def _close_whole(self, capture: CaptureState, translator: RootTranslator, result: VariableTracker) -> _native.Entry:
        misplaced = capture.effects.misplaced_call()
        if misplaced is not None:
            translator.broken_step = misplaced.break_instead.step
            raise misplaced.break_instead
        codegen = Codegen(capture.roots, self._code)
        try:
            _emit_effects(capture, codegen)
            codegen(result)
            codegen.op("return_value")
        except NotReconstructible as signal:
            translator.broken_step = translator.steps - 1
            translator.graph_break(gb.CANNOT_RECONSTRUCT, f"{signal.variable}")
        code = self._code
        cells_made = made_cells(code)
        builder = CodeBuilder(
            name=code.co_name,
            qualname=code.co_qualname,
            filename=code.co_filename,
            firstlineno=code.co_firstlineno,
            arguments=self._builder_arguments(),
            freevars=code.co_freevars,
            cell_arguments=tuple(n for n in code.co_cellvars if n not in cells_made),
            late_cells=cells_made,
        )
        return self._build(capture, codegen, builder, needs_hook=False)

    def _builder_arguments(self) -> tuple[str, ...]:
        return (*argument_slots(self._code), INPUTS, EXTRAS)

    def _build(self, capture: CaptureState, codegen: Codegen, builder: CodeBuilder, needs_hook: bool) -> _native.Entry:
        graph = capture.output.finish(list(codegen.output_nodes), graph_name(int(self._site.compile_id)))
        codegen.set_state(graph.state_calls)
        graph.entry_state.install()  # the guards take the state of this moment for that of the call
        backend = BackendCall(self._key, self._site)
        graph_call = backend.compile(graph, capture.output.tracing_context)
        self.is_empty = graph_call is None
        self.reports = backend.reports
        is_repeatable = graph.is_repeatable and not graph.draws_random
        if graph_call is not None and graph.draws_random and graph.is_repeatable and not capture.effects.is_empty():
            graph_call = restoring_random_state(graph_call, random_generators(graph))
            is_repeatable = True
        inputs = [entry.source for entry in graph.inputs] if graph_call is not None else []
        if needs_hook and graph_call is not None:
            graph_call = functools.partial(_native.call_unhooked, graph_call)
        failure = GraphFailure(
            self._code,
            graph.name,
            self._key.backend.name,
            self._site.location,
            is_repeatable,
            has_effects=not capture.effects.is_empty(),
            may_fall_back=backend.may_fall_back,
        )
        codegen.emit_into(builder, graph_call, inputs, failure.emit_handler)
        code = builder.assemble()
        _native.mark(code, None, _native.SKIP)
        self._site.tell(events.Bytecode, function=self._site.function, original=self._code, replacement=code)
        guards = FrameGuards(capture, self._function, self._args, self._site)
        guards.add_aliasing(graph)
        self.fixed.update(guards.report_symbols(is_asked_for=bool(self._key.dynamic)))
        tree = guards.tree([*inputs, *codegen.extras(inputs)])
        return _native.Entry(tree, code, len(inputs), needs_hook, graph.name)


def _emit_effects(capture: CaptureState, codegen: Codegen) -> None:
    for (cls, name), value in capture.effects.class_attributes.items():
        codegen.load_constant(type.__setattr__)
        codegen.load_class(cls)
        codegen.load_constant(name)
        codegen(value)
        codegen.op("call", 3)
        codegen.op("pop_top")
    for changed in list(capture.effects.mutated):
        changed.replay(codegen)
    for call in capture.effects.later_calls:
        call.replay(codegen)
