"""Options: defaults, modes, what is refused, and two compilations that differ in them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import pytest
import torch

from graphwright_plugins.errors import OptionTypeError, UnknownMode, UnknownOption
from graphwright_plugins.loading.contract import options_type_of
from graphwright_plugins.loading.torch_backends import CallableBackend
from graphwright_plugins.naming import listing
from graphwright_plugins.protocol import HasModes
from graphwright_plugins.resolve import ResolvedBackend, resolve_backend

from .base import ConformanceTests, call
from .program import Program, compile_program
from .themes import Theme

PROGRAM = Program(
    "options", lambda x, y: ((x @ y).relu() + 1, x.sum(0)), lambda: (torch.randn(4, 3), torch.randn(3, 4))
)


class _NoOptionValue:
    """A value that no option has a use for."""


class OptionTests(ConformanceTests):
    """Options are values of one compilation; what is wrong with them is said before anything is compiled."""

    theme = Theme.OPTIONS
    other_options: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """Options that differ from the defaults and can be used where the tests run, to compile with; without any, switches
    are turned over one at a time."""

    def test_defaults(self, backend: Any, resolved: ResolvedBackend) -> None:
        """No options, and all options with their defaults, are the same."""
        plain = resolve_backend(backend)
        names = [field.name for field in dataclasses.fields(options_type_of(resolved.backend)) if field.init]
        if not names:
            self.not_declared(f"backend {resolved.name!r} takes no options")
        spelled = {name: getattr(plain.options, name) for name in names}
        for given in (spelled, {}):
            same = resolve_backend(backend, given)
            assert same.options == plain.options, f"options={given} give {same.options}, and none give {plain.options}"
            assert same.key == plain.key, f"options={given} and none give {plain.options}, under different keys"

    def test_unknown_option(self, backend: Any) -> None:
        """An unknown option is refused by name before anything is compiled."""
        with pytest.raises(UnknownOption, match=r"no_such_option|takes no options"):
            resolve_backend(backend, {"no_such_option": 1})

    def test_wrong_option_type(self, backend: Any, resolved: ResolvedBackend) -> None:
        """Every option refuses a value of a foreign type, naming itself."""
        fields = [field for field in dataclasses.fields(options_type_of(resolved.backend)) if field.init]
        if not fields:
            self.not_declared(f"backend {resolved.name!r} takes no options")
        for field in fields:
            with pytest.raises(OptionTypeError, match=field.name):
                resolve_backend(backend, {field.name: _NoOptionValue()})

    def test_unknown_mode(self, backend: Any) -> None:
        """An unknown mode is refused."""
        with pytest.raises((UnknownMode, UnknownOption)):
            resolve_backend(backend, mode="no_such_mode")

    def test_modes(self, backend: Any, resolved: ResolvedBackend) -> None:
        """Each mode sets options that there are, to values that they take; options given by name win over it."""
        if not isinstance(resolved.backend, HasModes) or not resolved.backend.modes:
            self.not_declared(f"backend {resolved.name!r} has no modes")
        for mode, values in resolved.backend.modes.items():
            chosen = resolve_backend(backend, mode=mode).options
            for option, value in values.items():
                assert getattr(chosen, option) == value, f"mode {mode!r} doesn't set {option!r}"
            defaults = {option: getattr(resolve_backend(backend).options, option) for option in values}
            won = resolve_backend(backend, defaults, mode=mode).options
            assert won == resolve_backend(backend).options, f"mode {mode!r} wins over {defaults}: {won}"

    def test_two_compilations(self, backend: Any, resolved: ResolvedBackend) -> None:
        """What was compiled with some options is right, also after another was compiled with others."""
        others = [resolve_backend(backend, values) for values in self._others(resolved)]
        if not others:
            self._skip_without_others(resolved)
        first = compile_program(resolved, PROGRAM, PROGRAM.inputs(self.device))
        for seed, other in enumerate(others):
            assert other.key != resolved.key, f"the key of {other.options} is that of {resolved.options}"
            second = compile_program(other, PROGRAM, PROGRAM.inputs(self.device))
            for one, compiled in ((resolved, first), (other, second), (resolved, first)):
                self.check_call(one, compiled, PROGRAM, PROGRAM.inputs(self.device, seed), seed)

    def test_compiling_leaves_settings(self, backend: Any, resolved: ResolvedBackend) -> None:
        """Compiling and calling with any options changes no setting of torch's, and draws no random number."""
        for one in (resolved, *(resolve_backend(backend, values) for values in self._others(resolved))):
            inputs = PROGRAM.inputs(self.device)
            before = _settings()
            call(compile_program(one, PROGRAM, inputs), inputs)
            after = _settings()
            changed = [name for name, value in before.items() if after[name] != value]
            assert not changed, f"with {one.options}, compiling or calling changed {', '.join(changed)}"

    def _skip_without_others(self, resolved: ResolvedBackend) -> NoReturn:
        names = [field.name for field in dataclasses.fields(options_type_of(resolved.backend)) if field.init]
        if not names or isinstance(resolved.backend, CallableBackend):
            self.not_declared(f"backend {resolved.name!r} takes no options")
        pytest.skip(
            f"backend {resolved.name!r} has the options {listing(names)}, none of them a switch, and the kit knows no "
            f"other values of them: give some in TestOptions, such as other_options = ({{{names[0]!r}: …}},)"
        )

    def _others(self, resolved: ResolvedBackend) -> Sequence[Mapping[str, Any]]:
        if self.other_options:
            return self.other_options
        if isinstance(resolved.backend, CallableBackend):
            return ()
        fields = [field.name for field in dataclasses.fields(options_type_of(resolved.backend)) if field.init]
        values = {name: getattr(resolved.options, name) for name in fields}
        return [{**values, name: not value} for name, value in values.items() if isinstance(value, bool)]


def _settings() -> dict[str, Any]:
    return {
        "the default dtype": torch.get_default_dtype(),
        "the grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "determinism": torch.are_deterministic_algorithms_enabled(),
        "the number of threads": torch.get_num_threads(),
        "the precision of float32 products": torch.get_float32_matmul_precision(),
        "the state of the random generator": torch.get_rng_state().tolist(),
    }
