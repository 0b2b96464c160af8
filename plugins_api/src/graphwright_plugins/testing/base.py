"""What all conformance classes share: the resolved backend, running a program both ways, known failures."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NoReturn, TypeVar

import pytest
import torch

from graphwright_plugins.errors import UnsupportedGraph
from graphwright_plugins.protocol import CompiledGraph
from graphwright_plugins.resolve import ResolvedBackend, resolve_backend
from graphwright_plugins.torch_compat import DATA_DEPENDENT_ERRORS, TRACE_LOGGER

from .comparison import alias_facts, assert_same_aliases, assert_same_values
from .known_failures import KnownFailure, ListChecks, keys_of
from .option_sets import SET_FIXTURE, KitSettings, options_in_set, set_names, setting
from .program import Program, compile_program, dtypes_of
from .themes import Theme

NOT_DECLARED: Final = "not supported by declaration"
"""How the reason begins for which a test is skipped, where the backend doesn't claim what it needs."""

REFUSALS: Final[tuple[type[BaseException], ...]] = (UnsupportedGraph, *DATA_DEPENDENT_ERRORS)
"""What may be raised for a graph whose sizes depend on values."""

TRACE_VARIABLE: Final = "TORCH_TRACE"
"""The environment variable that asks torch for its trace of what is compiled."""

_Test = TypeVar("_Test", bound=Callable[..., None])


class ConformanceTests(KitSettings):
    """Base of the conformance classes.

    The inheriting module provides a fixture `backend`: a name, a `Backend` object or a `(gm, example_inputs)` callable.
    """

    theme: ClassVar[Theme]
    """What the class is about."""
    known_failures: ClassVar[Mapping[str, KnownFailure]] = {}
    """By test name: `"test_x"` for all that it is run for, `"test_x[add in place]"` for one program, and
    `"test_x[torch.bool]"` for one value of any parameter, `"test_x[refit]"` for one of `option_sets`. A known failure
    that passes is an error, and so is one of a test that there isn't, so that the list stays true."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test for each option set; called by pytest while it collects."""
        plugins = metafunc.config.pluginmanager
        if not plugins.has_plugin(ListChecks.__name__):
            plugins.register(ListChecks(), ListChecks.__name__)
        names = set_names(metafunc.definition)
        if names:
            metafunc.parametrize(SET_FIXTURE, names, indirect=True, ids=names)

    @pytest.fixture
    def resolved(self, backend: Any, _take_settings: None) -> ResolvedBackend:
        """The backend with its options."""
        return resolve_backend(backend, self.options)

    @pytest.fixture(name=SET_FIXTURE)
    def _option_set(self, request: pytest.FixtureRequest) -> str | None:
        name: str | None = getattr(request, "param", None)
        return name

    @pytest.fixture(autouse=True)
    def _take_settings(self, request: pytest.FixtureRequest, _option_set: str | None) -> None:
        # On the object, of which there is one for each test.
        vars(self)["device"] = setting(request.node, "device") or self.device
        vars(self)["options"] = options_in_set(request.node, _option_set)

    @pytest.fixture(autouse=True)
    def _apply_known_failures(self, request: pytest.FixtureRequest) -> None:
        for key in keys_of(request.node):
            if key in self.known_failures:
                failure = self.known_failures[key]
                reason = f"{failure.kind}: {failure.reason}"
                request.applymarker(pytest.mark.xfail(reason=reason, raises=failure.raises, strict=True))
                return

    @pytest.fixture(autouse=True)
    def _leave_out_trace_lines(self) -> Iterator[None]:
        # Where something fails pytest shows what was logged: pages, here, of what only torch's own tools read.
        logger = logging.getLogger(TRACE_LOGGER)
        before = logger.level
        if TRACE_VARIABLE not in os.environ:
            logger.setLevel(logging.CRITICAL)
        yield
        logger.setLevel(before)

    def require(self, resolved: ResolvedBackend, *abilities: str) -> None:
        """Skip the test where the backend doesn't claim one of these `Capabilities`."""
        for ability in abilities:
            if not getattr(resolved.capabilities, ability):
                self.not_declared(f"backend {resolved.name!r} doesn't claim the capability {ability!r}")

    def require_dtype(self, resolved: ResolvedBackend, dtype: torch.dtype) -> None:
        """Skip the test where the backend doesn't claim this dtype."""
        if dtype not in resolved.capabilities.dtypes:
            self.not_declared(f"backend {resolved.name!r} doesn't claim the dtype {dtype}")

    def require_program(self, resolved: ResolvedBackend, program: Program) -> None:
        """Skip the test where a dtype occurs in the program that the backend doesn't claim."""
        for dtype in sorted(dtypes_of(program), key=str):
            self.require_dtype(resolved, dtype)

    def not_declared(self, reason: str) -> NoReturn:
        """Skip the test: the backend doesn't claim what it needs."""
        pytest.skip(f"{NOT_DECLARED}: {reason}")

    def check(self, resolved: ResolvedBackend, program: Program, calls: int = 2) -> None:
        """Compile a program, call it some times, and compare everything with eager each time."""
        self.require_program(resolved, program)
        compiled = compile_program(resolved, program, program.inputs(self.device))
        for seed in range(calls):
            self.check_call(resolved, compiled, program, program.inputs(self.device, seed), seed)

    def check_call(
        self,
        resolved: ResolvedBackend,
        compiled: CompiledGraph,
        program: Program,
        inputs: Sequence[Any],
        seed: int,
    ) -> None:
        """Call a compiled program on inputs and eager on equal ones; compare outputs, inputs and aliases after it.

        Args:
            resolved: The backend.
            compiled: The compiled program.
            program: The program.
            inputs: Inputs for the compiled program, made with `seed`.
            seed: From which eager's inputs are made.
        """
        eager_inputs = program.inputs(self.device, seed)
        expected = program.function(*eager_inputs)
        actual = call(compiled, inputs)
        assert_same_values(expected, actual, resolved.capabilities, "output")
        assert_same_values(eager_inputs, inputs, resolved.capabilities, "input after the call")
        assert_same_aliases(alias_facts(eager_inputs, expected), alias_facts(inputs, actual))


def call(compiled: CompiledGraph, inputs: Sequence[Any]) -> Sequence[Any]:
    """Call a compiled graph.

    Raises:
        AssertionError: It returned something other than a tuple or list.
    """
    outputs: object = compiled(*inputs)
    assert isinstance(outputs, (tuple, list)), (
        f"a compiled graph returned {type(outputs).__name__}, not a tuple or list"
    )
    return outputs


def program_ids(programs: Sequence[Program]) -> Callable[[_Test], _Test]:
    """Parametrize a test over programs."""
    return pytest.mark.parametrize("program", programs, ids=[program.id for program in programs])
