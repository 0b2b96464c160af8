"""Wrong options, and errors while a compiled graph runs."""

import dataclasses
from typing import Any

import pytest
import torch

from graphwright_plugins.contract import options_type_of
from graphwright_plugins.errors import OptionTypeError, UnknownMode, UnknownOption
from graphwright_plugins.resolve import ResolvedBackend, resolve_backend

from .base import ConformanceTests, call
from .program import Program, compile_program


class _NoOptionValue:
    """A value that no option has a use for."""


class ErrorTests(ConformanceTests):
    """What is wrong is said, by the right exception, and the next call works."""

    def test_unknown_option(self, backend: Any) -> None:
        """An unknown option is refused by name before anything is compiled."""
        with pytest.raises(UnknownOption, match=r"no_such_option|takes no options"):
            resolve_backend(backend, {"no_such_option": 1})

    def test_wrong_option_type(self, backend: Any, resolved: ResolvedBackend) -> None:
        """Every option refuses a value of a foreign type, naming itself."""
        fields = [field for field in dataclasses.fields(options_type_of(resolved.backend)) if field.init]
        if not fields:
            pytest.skip(f"backend {resolved.name!r} takes no options")
        for field in fields:
            with pytest.raises(OptionTypeError, match=field.name):
                resolve_backend(backend, {field.name: _NoOptionValue()})

    def test_unknown_mode(self, backend: Any) -> None:
        """An unknown mode is refused."""
        with pytest.raises((UnknownMode, UnknownOption)):
            resolve_backend(backend, mode="no_such_mode")

    def test_error_while_running(self, resolved: ResolvedBackend) -> None:
        """An error that only the data can cause is eager's, and a later good call works."""
        program = Program("index", lambda x, index: (x[index] * 2,), lambda: (torch.randn(3), torch.tensor([0, 2])))
        inputs = program.inputs(self.device)
        compiled = compile_program(resolved, program, inputs)
        if self.device != "cpu":
            pytest.skip("an index out of range is an assertion on the device, which ends the process's use of it")
        with pytest.raises(IndexError):
            call(compiled, [inputs[0], torch.tensor([0, 9])])
        torch.testing.assert_close(call(compiled, inputs)[0], program.function(*inputs)[0])
