"""Captures one frame: translates it, closes the graph, writes the code, builds the guards."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

import graphwright._native as _native
import graphwright.events as events
import graphwright.graph_breaks as gb
from graphwright.backend_events import tell_report
from graphwright.break_code import BreakCode
from graphwright.bytecode import CodeBuilder
from graphwright.cache_key import CacheKey
from graphwright.capture import CaptureState, root_translator
from graphwright.codegen import EXTRAS, INPUTS, Codegen, argument_slots
from graphwright.continuation import break_inside, innermost_resumable
from graphwright.exc import BackendCompilerFailed, CodeLocation, GraphBreak, InternalError, drop_tracebacks
from graphwright.graph.ambient_state import AmbientState
from graphwright.graph.bodies import body_modules
from graphwright.graph.graph_call import (
    call_backend,
    checked,
    graph_itself,
    random_generators,
    restoring_random_state,
)
from graphwright.graph.graph_signature import Frame
from graphwright.graph.history import forget_history
from graphwright.graph.output_graph import FinishedGraph, GraphInput, graph_name
from graphwright.graph_failure import GraphFailure, made_cells
from graphwright.plugin_events import transform
from graphwright.resume import RESUME_FUNCTIONS
from graphwright.shapes.policy import ShapePolicy
from graphwright.shapes.seen import SeenShapes
from graphwright.shapes.shape_guards import check_required_dims, fixed_floats, shape_relations
from graphwright.shapes.symbols import SymbolTable
from graphwright.sources import Source
from graphwright.symbolic.frame_state import Returned
from graphwright.symbolic.translator import RootTranslator, Translator
from graphwright.torch_compat import DATA_DEPENDENT_ERRORS, forget_source_with, refuses_symbolic_floats
from graphwright.variables.base import NotReconstructible, VariableTracker
from graphwright_plugins import Extent, GraphReport, LeftToEager, ResolvedBackend, collecting

Convert = Callable[[FunctionType, tuple[object, ...], CacheKey], object]


class FrameCompiler:
    """Makes the entry of one frame.

    Args:
        args: the values of the argument slots.
        convert: captures frames; resume functions are compiled with it.
        seen: the sizes and numbers that earlier captures of the code met.
    """

    def __init__(
        self,
        function: FunctionType,
        args: tuple[object, ...],
        key: CacheKey,
        compile_id: str,
        convert: Convert,
        seen: SeenShapes | None = None,
    ) -> None:
        self._function = function
        self._code = function.__code__
        self._args = args
        self._key = key
        self._compile_id = compile_id
        self._convert = convert
        self._seen = seen or SeenShapes()
        self._captures: list[CaptureState] = []
        self.is_empty = False
        """Whether the entry that was made has no graph."""
        self.fixed: dict[str, str] = {}
        """The sizes and numbers that the program asked for, each with where it did."""
        self.reports: tuple[GraphReport, ...] = ()
        """What became of the graph at the backend."""
        self._location = CodeLocation(self._code.co_filename, self._code.co_firstlineno, self._code.co_qualname)

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
            events.emit(
                events.MechanismOff(
                    mechanism="symbolic floats",
                    reason=f"backend {self._key.backend_name!r} cannot compile {self._code.co_qualname} with them",
                    remedy="pass numbers that change from call to call as tensors",
                )
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
            RESUME_FUNCTIONS.name_of(self._code),
            self._code.co_filename,
            self._code.co_firstlineno,
            starts_midway=self._code in RESUME_FUNCTIONS,
        )
        if end is None:
            return extent
        at = end.location or self._location
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
        events.emit(
            events.GraphBroke(
                kind=signal.kind,
                detail=signal.detail,
                user_stack=signal.user_stack,
                location=signal.location or self._location,
                compile_id=self._compile_id,
            )
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
        graph = capture.output.finish(list(codegen.output_nodes), graph_name(int(self._compile_id)))
        codegen.set_state(graph.state_calls)
        graph.entry_state.install()  # the guards take the state of this moment for that of the call
        graph_call = self._compile_graph(capture, graph)
        self.is_empty = graph_call is None
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
            self._location,
            is_repeatable,
            has_effects=not capture.effects.is_empty(),
            may_fall_back=self._backend.on_error == "fallback",
        )
        codegen.emit_into(builder, graph_call, inputs, failure.emit_handler)
        code = builder.assemble()
        _native.mark(code, None, _native.SKIP)
        self._guard_aliasing(capture, graph)
        events.emit(
            events.Bytecode(
                function=RESUME_FUNCTIONS.name_of(self._code),
                original=self._code,
                replacement=code,
                location=self._location,
                compile_id=self._compile_id,
            )
        )
        tree = self._guard_tree(capture, [*inputs, *codegen.extras(inputs)])
        return _native.Entry(tree, code, len(inputs), needs_hook, graph.name)

    def _compile_graph(self, capture: CaptureState, graph: FinishedGraph) -> Callable[..., Any] | None:
        if graph.module is None:
            return None
        backend = self._key.backend
        events.emit(
            events.GraphCaptured(
                graph_module=graph.module,
                name=graph.name,
                example_inputs=tuple(graph.example_inputs),
                location=self._location,
                compile_id=self._compile_id,
            )
        )
        module = transform(graph.module, graph.example_inputs)
        graph = dataclasses.replace(graph, module=module)
        events.emit(
            events.BackendUsed(
                graph_name=graph.name,
                backend=backend.name,
                distribution=backend.distribution or "",
                version=backend.version or "",
                compile_id=self._compile_id,
            )
        )
        started = time.perf_counter()
        with collecting(graph.name) as collector:
            compiled = self._call_backend(capture, graph)
        seconds = time.perf_counter() - started
        self.reports = collector.reports
        for part in body_modules(module):
            forward: Any = part.forward  # a bound method, which torch annotates as any callable
            _native.mark(forward.__func__.__code__, None, _native.SKIP)
            forget_source_with(forward.__func__.__code__)
        forget_history(module)
        events.emit(
            events.GraphCompiled(
                name=graph.name,
                backend=backend.name,
                seconds=seconds,
                reports=self.reports,
                compile_id=self._compile_id,
            )
        )
        for builder in collector.builders:
            tell_report(builder, self._location, self._compile_id)
        if backend.distribution == "graphwright-eager":
            return compiled
        return checked(compiled, graph, backend)

    @property
    def _backend(self) -> ResolvedBackend:
        backend = self._key.backend
        falls_back = self._key.settings.suppress_errors and backend.on_error == "raise"
        return dataclasses.replace(backend, on_error="fallback") if falls_back else backend

    def _call_backend(self, capture: CaptureState, graph: FinishedGraph) -> Callable[..., Any]:
        backend = self._backend
        try:
            return call_backend(backend, graph, capture.output.tracing_context)
        except BackendCompilerFailed as failure:
            cause = failure.__cause__
            if isinstance(cause, LeftToEager):
                events.emit(
                    events.GraphLeftToEager(
                        graph_name=graph.name,
                        backend=backend.name,
                        error=cause,
                        location=self._location,
                        compile_id=self._compile_id,
                    )
                )
                return graph_itself(graph)
            if isinstance(cause, DATA_DEPENDENT_ERRORS):  # in a backward, say; eager has the values
                detail = f"backend {backend.name!r}, compiling {graph.name}: {cause}"
                raise GraphBreak(gb.DATA_DEPENDENT_VALUE, detail, self._location) from failure
            if not refuses_symbolic_floats(cause):  # that is no end: it is tried without them
                events.emit(
                    events.BackendFailed(
                        graph_name=graph.name,
                        backend=backend.name,
                        error=failure,
                        location=self._location,
                        compile_id=self._compile_id,
                    )
                )
            raise

    def _guard_aliasing(self, capture: CaptureState, graph: FinishedGraph) -> None:
        """Tensors that share memory must go on to share it, and the others not, where the graph writes to any."""
        capture.effects.guard_aliasing(capture.guards)
        groups = capture.output.storage_groups()
        used = {id(entry) for entry in graph.inputs}
        pairs = [(e, g) for e, g in zip(capture.output.inputs, groups, strict=True) if id(e) in used]
        shared = len({g for _, g in pairs}) < len(pairs)
        written = capture.output.mutated_inputs()
        if len(pairs) > 1 and (shared or written):
            places = {id(e): int(e.tensor.storage_offset()) for e in written} if shared else {}
            offsets = [places.get(id(e), -1) for e, _ in pairs]
            capture.guards.storages([e.source for e, _ in pairs], [g for _, g in pairs], offsets)
        for entry in written:
            if entry.tensor.requires_grad:
                _guard_place_in_history(capture, entry)

    def _report_symbols(self, symbols: SymbolTable) -> None:
        why = "dynamic=True" if self._key.dynamic else "it is marked, or was another in an earlier capture"
        at: dict[str, Any] = {"location": self._location, "compile_id": self._compile_id}
        for place, symbol in symbols.varying():
            events.emit(events.DimensionMadeDynamic(source=str(place), symbol=symbol, why=why, **at))
        for place, value, asked_at in symbols.fixed():
            self.fixed[str(place)] = asked_at
            events.emit(events.DimensionFixed(source=str(place), value=value, asked_at=asked_at, **at))

    def _guard_tree(self, capture: CaptureState, fetched: list[Source]) -> _native.GuardTree:
        check_required_dims(capture.output.symbols)
        self._report_symbols(capture.output.symbols)
        capture.guards.shapes(shape_relations(capture.output.symbols))
        for source, value in fixed_floats(capture.output.symbols):
            capture.guards.add(source, "eq", value)
        roots, n_slots, relations = capture.guards.native_spec(fetched)
        tree = _native.GuardTree(roots, n_slots, relations, True)
        events.emit(
            events.GuardsBuilt(
                function=RESUME_FUNCTIONS.name_of(self._code), guards=tuple(capture.guards), compile_id=self._compile_id
            )
        )
        if not tree.check(self._args, self._function):
            raise InternalError(
                f"the guards of {self._code.co_qualname} do not hold for the call they were made from: "
                f"{tree.first_failure(self._args, self._function)!r}"
            )
        return tree


def _guard_place_in_history(capture: CaptureState, entry: GraphInput) -> None:
    """Whether a tensor may be written to depends on whether it, or what it is a view of, is a leaf."""
    base = entry.tensor._base
    of_base = entry.source.attr("_base")
    if base is None:
        capture.guards.add(of_base, "eq", None)
        capture.guards.add(entry.source.attr("is_leaf"), "eq", entry.tensor.is_leaf)
    else:
        capture.guards.add(of_base.attr("is_leaf"), "eq", base.is_leaf)
        capture.guards.add(of_base.attr("requires_grad"), "eq", base.requires_grad)


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
