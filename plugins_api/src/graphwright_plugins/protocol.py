"""What a backend is: the `Backend` protocol, its capabilities, and the optional extensions."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import fx

from graphwright_plugins.errors import DeclarationError
from graphwright_plugins.store.artifact_store import ArtifactMeta

CompiledGraph: TypeAlias = Callable[..., Sequence[Any]]
"""What `Backend.compile` returns: called with the graph's inputs positionally, returns the outputs in order."""

GraphCompiler: TypeAlias = Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]
"""A plain `(gm, example_inputs) -> callable`, as `torch.compile` takes for its backend."""


@dataclass(frozen=True)
class Tolerance:
    """How far a result may be from eager's, as in `torch.testing.assert_close`."""

    rtol: float
    """Relative tolerance."""
    atol: float
    """Absolute tolerance."""

    def __post_init__(self) -> None:
        given: dict[str, object] = {"rtol": self.rtol, "atol": self.atol}
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise DeclarationError(f"Tolerance has {name}={value!r}; it must be a number that is not negative")


FLOATING_DTYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
INTEGER_DTYPES = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool})
COMPLEX_DTYPES = frozenset({torch.complex64, torch.complex128})


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do, so that callers and tests ask for abilities and never for names.

    The defaults describe a backend that runs everything on every device as eager does. The framework keeps from a
    backend what `devices`, `training` and `dynamic_shapes` leave out; the others are for who asks, such as the
    conformance kit: a backend refuses such graphs itself, by `GraphForm`, `supports` or `UnsupportedGraph`.

    Raises:
        DeclarationError: A value is of a wrong type.
    """

    devices: frozenset[str] | None = None
    """Device types (`"cpu"`, `"cuda"`, …) that the backend compiles for; None means every device. A graph with an
    input elsewhere is unsupported; not so a single number on the CPU beside tensors that are on one of these devices,
    as eager takes it for a number, nor a tensor on `meta`, which holds nothing."""
    dtypes: frozenset[torch.dtype] = FLOATING_DTYPES | INTEGER_DTYPES | COMPLEX_DTYPES
    """Tensor dtypes that may occur in a graph; `GraphForm.dtypes` has graphs with others refused."""
    training: bool = True
    """Gradients flow through the compiled graph. Otherwise such graphs run on the fallback."""
    mutation: bool = True
    """Graphs may change their inputs in place."""
    aliasing: bool = True
    """Inputs may share memory, and outputs may be inputs or views of them."""
    dynamic_shapes: bool = True
    """Sizes may be symbolic: one compiled graph serves many."""
    random: bool = True
    """Graphs may draw random numbers."""
    eager_random: bool = True
    """Random draws equal eager's for the same seed."""
    strides: bool = True
    """Outputs have eager's strides."""
    bitwise: bool = False
    """Results equal eager's bit for bit."""
    tolerances: Mapping[torch.dtype, Tolerance] = field(default_factory=dict, hash=False)
    """Tolerance for each dtype where it differs from `torch.testing.assert_close`'s default."""

    def __post_init__(self) -> None:
        if self.devices is not None:
            devices = as_set("Capabilities", "devices", self.devices, str, "device types such as 'cuda'")
            for device in devices:
                if not device or ":" in device:
                    raise DeclarationError(
                        f"Capabilities has the device {device!r}; devices are types without an index, such as 'cuda'"
                    )
            object.__setattr__(self, "devices", devices)
        dtypes = as_set("Capabilities", "dtypes", self.dtypes, torch.dtype, "dtypes such as torch.float32")
        object.__setattr__(self, "dtypes", dtypes)
        for each in fields(self):
            if isinstance(each.default, bool):
                check_flag("Capabilities", each.name, getattr(self, each.name))
        self._check_tolerances()

    def _check_tolerances(self) -> None:
        told = "it must be a mapping of dtypes to Tolerance, such as {torch.float16: Tolerance(rtol=1e-2, atol=1e-2)}"
        given: object = self.tolerances
        if not isinstance(given, Mapping):
            raise DeclarationError(f"Capabilities has tolerances={given!r}; {told}")
        for dtype, tolerance in given.items():
            if not isinstance(dtype, torch.dtype) or not isinstance(tolerance, Tolerance):
                raise DeclarationError(f"Capabilities has tolerances with {dtype!r}: {tolerance!r}; {told}")


def as_set(owner: str, name: str, value: object, kind: type[Any], expected: str) -> frozenset[Any]:
    """A declared collection as a set, its items checked.

    Args:
        owner: The class that declares it, for the message.
        name: The field, for the message.
        value: What was given.
        kind: What the items must be.
        expected: That in words, with an example.

    Raises:
        DeclarationError: It is no collection, or an item is of another type.
    """
    if not isinstance(value, Collection) or isinstance(value, (str, bytes, Mapping)):
        raise DeclarationError(f"{owner} has {name}={value!r}; it must be a set of {expected}")
    for item in value:
        if not isinstance(item, kind):
            raise DeclarationError(f"{owner} has {item!r} in {name}; it must be a set of {expected}")
    return frozenset(value)


def check_flag(owner: str, name: str, value: object) -> None:
    """Check a declared flag.

    Raises:
        DeclarationError: It is no bool.
    """
    if not isinstance(value, bool):
        raise DeclarationError(f"{owner} has {name}={value!r}; it must be True or False")


@dataclass(frozen=True)
class Unavailable:
    """Why a backend can't work here."""

    reason: str
    """What is missing, as a clause: `"no CUDA device was found"`."""
    remedy: str
    """What the user can do about it."""


@runtime_checkable
class Backend(Protocol):
    """Compiles FX graphs.

    An instance is what an entry point in the group `graphwright.backends` names; the entry point's name and the
    instance's `name` are the same. Importing the module that holds it must do no device work.

    A backend may also have the attributes of `HasOptions`, `HasModes`, `HasApiVersion` and `HasAvailability`.
    """

    @property
    def name(self) -> str:
        """The name users choose the backend by."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the backend can do."""
        ...

    def compile(self, graph: fx.GraphModule, example_inputs: Sequence[Any], options: Any) -> CompiledGraph:
        """Compile one graph.

        Called inside a tracing context that holds the fake tensor mode, under the grad mode, autocast state and
        default device and dtype of the call being compiled.

        Args:
            graph: The graph, owned by the callee from here on. Its output is always a tuple. Parameters and
                buffers are ordinary placeholders. It ran without an error on fakes like the example inputs, so that
                what is wrong with shapes, dtypes or autograd was met before.
            example_inputs: A fake tensor, number or symbolic number for each placeholder, in order.
            options: A validated instance of `options_type` (`NoOptions` for a backend without options).

        Returns:
            A callable that takes the real inputs positionally, one for each placeholder, and returns the outputs
            as a tuple or list. It holds no strong reference to anything of the user's.

        Raises:
            UnsupportedGraph: The graph is beyond what this backend does.
            BackendResourceError: Out of memory, or a failure that may pass.
        """
        ...


@runtime_checkable
class HasOptions(Protocol):
    """Optional extension: the backend takes options."""

    @property
    def options_type(self) -> type[Any]:
        """A frozen dataclass whose fields all have defaults."""
        ...


@runtime_checkable
class HasModes(Protocol):
    """Optional extension: named bundles of options."""

    @property
    def modes(self) -> Mapping[str, Mapping[str, Any]]:
        """Option values for each mode; options given explicitly win over them."""
        ...


@runtime_checkable
class HasApiVersion(Protocol):
    """Optional extension: the contract version the plugin was written for, `(1, 0)` where absent."""

    @property
    def api_version(self) -> tuple[int, int]:
        """Major and minor version."""
        ...


@runtime_checkable
class HasAvailability(Protocol):
    """Optional extension: the backend may be installed where it can't work."""

    def available(self) -> Unavailable | None:
        """Say why the backend can't work here, or None when it can."""
        ...


@runtime_checkable
class HasArtifacts(Protocol):
    """Optional extension: what the backend compiled can be saved, and loaded by another process.

    The framework owns the store: where it lies, keys, locking, size, and what is damaged. It looks an artifact up by
    the graph's structure, the inputs' metadata, the options, versions, the state of torch, and `cache_key_parts`.
    """

    def cache_key_parts(self, options: Any) -> Mapping[str, str]:
        """What else the compiled graph depends on: driver, device, compiler and their versions, environment variables.

        A backend that is passed as an object, and so belongs to no distribution, must give its `version`.

        Raises:
            NotCacheable: These options give nothing that can be kept.
        """
        ...

    def save(self, compiled: CompiledGraph) -> bytes:
        """What `load` needs to make a compiled graph again, in any process of the same key.

        Called right after `compile`, with what that returned; `artifacts_wanted()` was true meanwhile.

        Raises:
            NotCacheable: This one can't be kept.
        """
        ...

    def load(self, data: bytes, options: Any) -> CompiledGraph:
        """Make a compiled graph from what `save` gave.

        Called in the state of `compile` (grad mode, autocast), but without graph or inputs, and outside of tracing and
        fake modes: tensors that it makes or reads are real.
        """
        ...

    def compatible(self, meta: ArtifactMeta) -> str | None:
        """Say why a stored artifact can't be loaded here, as a clause, or None when it can.

        Asked before `load`, for what the key doesn't tell: whether the device is there, say.
        """
        ...


@runtime_checkable
class HasClose(Protocol):
    """Optional extension: the backend holds device memory, handles or processes that can be given back."""

    def close(self) -> None:
        """Give back what the backend holds.

        Called by `graphwright.reset()`, after all that was captured has been dropped, and at the interpreter's exit,
        if the backend compiled anything since the last time. A later `compile` works again. What the backend compiled
        and somebody still holds may fail when it is called, with an error that says so.
        """
        ...


@runtime_checkable
class HasGraphForm(Protocol):
    """Optional extension: the backend wants its graphs in a form of their own."""

    @property
    def graph_form(self) -> Any:
        """A `GraphForm`, or a function of the options that gives one."""
        ...


@runtime_checkable
class HasRefit(Protocol):
    """Optional extension: weights that are constants in a compiled graph can be exchanged."""

    def update_weights(self, compiled: CompiledGraph, tensors: Mapping[str, torch.Tensor]) -> CompiledGraph | None:
        """Exchange weights in a compiled graph.

        Args:
            compiled: What `compile` returned.
            tensors: The weights that changed, by the `target` of the `get_attr` nodes that the graph had for them.

        Returns:
            What takes the compiled graph's place; None if it was changed itself.

        Raises:
            UnsupportedGraph: These can't be exchanged: the graph is compiled anew.
        """
        ...


@runtime_checkable
class HasPrepare(Protocol):
    """Optional extension: something is to be done once, before the first graph comes: load a library, open a device."""

    def prepare(self, options: Any) -> None:
        """Get ready to compile under these options.

        Called by `graphwright.compile`, once for the same backend and options, before the function is called; never at
        import.

        Raises:
            BackendUnavailable: The backend can't work here after all.
            BackendResourceError: Something ran out, or failed for now.
        """
        ...


@runtime_checkable
class HasCaptureAdvice(Protocol):
    """Optional extension: the backend knows how some functions should be captured for it."""

    @property
    def capture_advice(self) -> Any:
        """A `CaptureAdvice`, or a function of the options that gives one. It holds for this backend's captures only."""
        ...
