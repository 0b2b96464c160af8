"""The shape of the backend object itself."""

import pickle

import torch

from graphwright_plugins.loading.contract import api_version_of, options_type_of, why_not_backend
from graphwright_plugins.options.build import why_not_options
from graphwright_plugins.resolve import ResolvedBackend
from graphwright_plugins.version import why_not_compatible

from .base import ConformanceTests
from .program import Program, compile_program
from .themes import Theme

PROGRAM = Program("product", lambda x, y: (x * y, x + y), lambda: (torch.randn(3), torch.randn(3)))


class ContractTests(ConformanceTests):
    """The backend object has what the protocol asks for and keeps its promises."""

    theme = Theme.LOADING

    def test_backend_object(self, resolved: ResolvedBackend) -> None:
        """Name, capabilities, `compile` and the optional extensions."""
        fault = why_not_backend(resolved.backend)
        assert fault is None, f"backend {resolved.name!r} {fault}"

    def test_api_version(self, resolved: ResolvedBackend) -> None:
        """It was written for a version of the contract that is accepted."""
        fault = why_not_compatible(api_version_of(resolved.backend))
        assert fault is None, f"api_version of backend {resolved.name!r}: {fault}"

    def test_options_type(self, resolved: ResolvedBackend) -> None:
        """Options are a frozen dataclass whose fields all have defaults and a documented meaning."""
        options_type = options_type_of(resolved.backend)
        fault = why_not_options(options_type)
        assert fault is None, f"options_type {fault}"
        assert options_type.__doc__, "the options class needs a docstring"
        assert options_type() == options_type(), f"two {options_type.__name__} made of the defaults aren't equal"

    def test_options_survive_pickling(self, resolved: ResolvedBackend) -> None:
        """Options can be stored with a compiled graph."""
        back = pickle.loads(pickle.dumps(resolved.options))
        assert back == resolved.options, f"the options {resolved.options} come back from pickle as {back}"

    def test_equal_options_are_equal(self, resolved: ResolvedBackend) -> None:
        """The key by which compiled graphs are shared can be hashed, and equals itself."""
        assert resolved.key == resolved.key, f"the key of {resolved.options} isn't equal to itself: {resolved.key}"
        assert hash(resolved.key) == hash(resolved.key), f"the key of {resolved.options} has a hash of the moment"

    def test_example_inputs_unchanged(self, resolved: ResolvedBackend) -> None:
        """Compiling changes no real input."""
        inputs = PROGRAM.inputs(self.device)
        before = [(tensor.clone(), tensor._version) for tensor in inputs]
        compile_program(resolved, PROGRAM, inputs)
        for place, (tensor, (value, version)) in enumerate(zip(inputs, before, strict=True)):
            assert torch.equal(tensor, value), f"compiling changed the real input {place} from {value} to {tensor}"
            assert tensor._version == version, f"compiling wrote to the real input {place}"
