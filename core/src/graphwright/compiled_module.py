"""A compiled `nn.Module`: another face of the same module.

`compile(module)` returns an object of a class made for it, a subclass of the module's own, whose `__dict__` *is* the
module's. So both have the same parameters, buffers, submodules, hooks and attributes under the same names, whichever of
the two changes them; only calling differs. What only the face needs is kept in slots, outside of that dict.

Code that is captured runs with the original module as `self`, so faces and originals share cache entries.
"""

from __future__ import annotations

import copy
import inspect
import types
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Protocol, cast

import torch

import graphwright.torch_compat as torch_compat
from graphwright.exc import CompileValueError


class Compiler(Protocol):
    """What a face needs to compile parts of its module."""

    def function(self, function: FunctionType) -> Callable[..., Any]:
        """Compile a plain function."""
        ...

    def attribute(self, function: Any) -> Any:
        """Compile what sits on a module as `forward`, if it is of a kind that can be compiled."""
        ...

    def module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Compile a module."""
        ...


_NO_FUNCTION = object()
_global_hooks = (*torch_compat.global_forward_hooks, *torch_compat.global_backward_hooks)
_forward_hooks, _forward_pre_hooks = torch_compat.global_forward_hooks
_backward_hooks, _backward_pre_hooks = torch_compat.global_backward_hooks


class ModuleCalls:
    """The compiled parts of one module, made when first needed and anew when its class or `forward` changes."""

    __slots__ = ("_around", "_odd", "compiled", "compiler", "function")

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler
        self.function: Any = _NO_FUNCTION
        """The class's `forward` that `compiled` was made from."""
        self.compiled: Callable[..., Any] = _never
        self._odd: tuple[Any, Any] = (None, None)
        self._around: tuple[Any, Any] = (None, None)

    def forward(self, module: torch.nn.Module) -> Callable[..., Any]:
        """The compiled `forward` of a module, bound to it."""
        if "forward" in module.__dict__:
            return self._odd_forward(module.__dict__["forward"], module)
        function = inspect.getattr_static(type(module), "forward")
        if not isinstance(function, FunctionType):  # a staticmethod, something compiled, some other descriptor
            return self._odd_forward(function, module)
        if function is not self.function:
            self.compiled = self.compiler.function(function)
            self.function = function
        return MethodType(self.compiled, module)

    def _odd_forward(self, found: Any, module: torch.nn.Module) -> Callable[..., Any]:
        if self._odd[0] is not found:
            self._odd = (found, self.compiler.attribute(module.forward))
        compiled: Callable[..., Any] = self._odd[1]
        return compiled

    def call(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module in any circumstances, the way `nn.Module.__call__` goes about it."""
        own_call = type(module).__call__
        if own_call is not torch_compat.module_call:
            return self._compiled_around(own_call)(module, *args, **kwargs)
        if getattr(module, "_compiled_call_impl", None) is not None:  # torch's module.compile() was called
            return module(*args, **kwargs)
        if any(_global_hooks):
            return self._compiled_around(own_call)(module, *args, **kwargs)
        if _has_hooks(module):
            return torch_compat.call_with_hooks(_HookedCall(module, self.forward(module)), args, kwargs)
        return self.forward(module)(*args, **kwargs)

    def _compiled_around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled `__call__` of the class: what surrounds `forward` is captured together with it."""
        if not isinstance(function, FunctionType):
            return function
        if self._around[0] is not function:
            # nn.Module.__call__ is one code object for all modules; entries are kept with the code, and are limited.
            own = _with_own_code(function) if function is torch_compat.module_call else function
            self._around = (function, self.compiler.function(own))
        compiled: Callable[..., Any] = self._around[1]
        return compiled


def _never(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("called before it was compiled")


def _with_own_code(function: FunctionType) -> FunctionType:
    twin = FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__)
    twin.__qualname__ = function.__qualname__
    twin.__module__ = function.__module__
    return twin


def _has_hooks(module: torch.nn.Module) -> bool:
    state = module.__dict__
    return bool(
        state["_forward_hooks"]
        or state["_forward_pre_hooks"]
        or state["_backward_hooks"]
        or state["_backward_pre_hooks"]
    )


class _HookedCall:
    """Stands for a module while torch runs its hooks: its `forward` is compiled, and hooks get the module itself."""

    def __init__(self, module: torch.nn.Module, forward: Callable[..., Any]) -> None:
        self._module = module
        self.forward = forward

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    @property
    def _forward_pre_hooks(self) -> dict[int, Any]:
        return self._given_module(self._module._forward_pre_hooks)

    @property
    def _forward_hooks(self) -> dict[int, Any]:
        return self._given_module(self._module._forward_hooks)

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        full, partial = self._module._get_backward_hooks()
        return [self._swap(hook) for hook in full], [self._swap(hook) for hook in partial]

    def _get_backward_pre_hooks(self) -> list[Any]:
        return [self._swap(hook) for hook in self._module._get_backward_pre_hooks()]

    def _given_module(self, hooks: dict[int, Any]) -> dict[int, Any]:
        return {key: self._swap(hook) for key, hook in hooks.items()}

    def _swap(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        module = self._module
        return lambda _, *args: hook(module, *args)


class _Forward:
    """The attribute `forward` of a face: reads give the compiled one, writes go to the module."""

    def __get__(self, face: Any, owner: Any) -> Any:
        if face is None:
            return owner.__wrapped_class__.forward
        return face._graphwright_calls.forward(face._graphwright_module)

    def __set__(self, face: Any, value: Any) -> None:
        face._graphwright_module.forward = value

    def __delete__(self, face: Any) -> None:
        del face._graphwright_module.forward


class CompiledModule:
    """What the faces of all modules have in common; comes before the module's own class in the order of bases."""

    __slots__ = ()
    _graphwright_module: torch.nn.Module
    _graphwright_calls: ModuleCalls
    __wrapped_class__: type

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an ordinary module: `type(self)(...)` in a method of the module must not make a face."""
        return cls.__wrapped_class__(*args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep the user's `__init_subclass__` from seeing the class made for the face."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled module."""
        module = self._graphwright_module
        calls = self._graphwright_calls
        cls = type(module)
        state = module.__dict__
        if (
            cls.forward is not calls.function
            or cls.__call__ is not torch_compat.module_call
            or "forward" in state
            or state["_forward_hooks"]
            or state["_forward_pre_hooks"]
            or state["_backward_hooks"]
            or state["_backward_pre_hooks"]
            or _forward_hooks
            or _forward_pre_hooks
            or _backward_hooks
            or _backward_pre_hooks
            or "_compiled_call_impl" in state
        ):
            return calls.call(module, args, kwargs)
        return calls.compiled(module, *args, **kwargs)

    forward = _Forward()

    @property
    def __class__(self) -> type:
        return type(self._graphwright_module)

    @__class__.setter
    def __class__(self, value: type) -> None:  # parametrizations and lazy modules change a module's class
        self._graphwright_module.__class__ = value

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._graphwright_module)

    def __getattr__(self, name: str) -> Any:
        if name in ("_graphwright_module", "_graphwright_calls"):
            raise AttributeError(name)
        return getattr(self._graphwright_module, name)

    def __copy__(self) -> torch.nn.Module:
        return self._graphwright_calls.compiler.module(copy.copy(self._graphwright_module))

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Module:
        return self._graphwright_calls.compiler.module(copy.deepcopy(self._graphwright_module, memo))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self._graphwright_calls.compiler.module, (self._graphwright_module,)


_faces: weakref.WeakKeyDictionary[type, weakref.ref[type]] = weakref.WeakKeyDictionary()


def make_compiled_module(module: torch.nn.Module, compiler: Compiler) -> torch.nn.Module:
    """The compiled face of a module.

    Args:
        module: The module; the face keeps it alive and shares its state.
        compiler: Compiles its parts.

    Raises:
        CompileValueError: The module is of a kind that cannot have a second face.
    """
    _check(module)
    cls = _face_class(type(module))
    try:
        face: Any = object.__new__(cls)
        object.__setattr__(face, "__dict__", module.__dict__)
    except TypeError as error:
        raise CompileValueError(
            f"graphwright.compile: a {type(module).__qualname__} has state outside of its __dict__ ({error}), so no "
            "module can share it; compile its forward instead: module.forward = graphwright.compile(module.forward)"
        ) from error
    vars(cls)["_graphwright_module"].__set__(face, module)  # nn.Module.__setattr__ would make it a submodule
    vars(cls)["_graphwright_calls"].__set__(face, ModuleCalls(compiler))
    return cast(torch.nn.Module, face)


def original_module(module: Any) -> torch.nn.Module | None:
    """The module behind a face, or None when the object is none."""
    if issubclass(type(module), CompiledModule):
        return cast(torch.nn.Module, module._graphwright_module)
    return None


def _face_class(cls: type) -> type:
    reference = _faces.get(cls)
    face = reference() if reference is not None else None
    if face is None:
        face = _make_face_class(cls)
        _faces[cls] = weakref.ref(face)
    return face


def _make_face_class(cls: type) -> type:
    namespace: dict[str, Any] = {
        "__slots__": ("_graphwright_calls", "_graphwright_module"),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__wrapped_class__": cls,
        **{name: _forwarded(name) for name in _slot_names(cls)},
    }
    try:
        # Not by calling the metaclass: a class that registers itself on creation would be there twice.
        return type.__new__(type(cls), cls.__name__, (CompiledModule, cls), namespace)
    except TypeError as error:
        raise CompileValueError(
            f"graphwright.compile: {cls.__qualname__} allows no subclass to stand in for it ({error}); compile the "
            "module's forward instead: module.forward = graphwright.compile(module.forward)"
        ) from error


def _slot_names(cls: type) -> list[str]:
    return [
        name
        for base in cls.__mro__
        for name, value in vars(base).items()
        if isinstance(value, types.MemberDescriptorType) and name not in ("__dict__", "__weakref__")
    ]


def _forwarded(name: str) -> property:
    """A slot of the module's class: its value is in the module object itself, not in the shared dict."""

    def read(face: Any) -> Any:
        return getattr(face._graphwright_module, name)

    def write(face: Any, value: Any) -> None:
        setattr(face._graphwright_module, name, value)

    def delete(face: Any) -> None:
        delattr(face._graphwright_module, name)

    return property(read, write, delete)


def _check(module: torch.nn.Module) -> None:
    if "_forward_hooks" not in module.__dict__:
        raise CompileValueError(
            f"graphwright.compile: a {type(module).__qualname__} was passed whose __init__ did not call "
            "nn.Module.__init__; call super().__init__() first"
        )
