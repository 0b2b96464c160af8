"""Weak references to all the parts of a program, to see what outlives it."""

from __future__ import annotations

import contextlib
import types
import weakref
from typing import Any


class References:
    """Weak references, each with a name."""

    def __init__(self) -> None:
        self._known: list[tuple[str, weakref.ref[Any]]] = []

    def add(self, value: Any, name: str) -> None:
        """Watch an object, where its type allows."""
        with contextlib.suppress(TypeError):
            self._known.append((name, weakref.ref(value)))

    def add_namespace(self, namespace: dict[str, Any]) -> None:
        """Watch what an executed program defined: functions, classes, their code, objects, modules and parameters."""
        for name, value in namespace.items():
            if name not in ("torch", "__builtins__") and not isinstance(value, types.ModuleType):
                self.add(value, name)
                self._add_parts(value, name)

    def _add_parts(self, value: Any, name: str) -> None:
        code = getattr(value, "__code__", None)
        if isinstance(code, types.CodeType):
            self._add_code(code)
        if isinstance(value, type):
            for part, attribute in list(vars(value).items()):
                if not isinstance(attribute, type):
                    self._add_parts(attribute, f"{name}.{part}")
        if hasattr(value, "named_parameters"):
            for part, parameter in value.named_parameters() if not isinstance(value, type) else ():
                self.add(parameter, f"{name}.{part}")

    def _add_code(self, code: types.CodeType) -> None:
        if not code.co_filename.startswith("<fresh"):
            return
        self.add(code, f"code of {code.co_qualname}")
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add_code(constant)

    def alive(self) -> list[str]:
        """Names of what is still there."""
        return [name for name, reference in self._known if reference() is not None]
