"""Imports inside functions."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
import types
from typing import TYPE_CHECKING

import graphwright.graph_breaks as gb
from graphwright.exc import ObservedException
from graphwright.symbolic.dispatch import opcode
from graphwright.trust import is_trusted_module
from graphwright.variables.base import VariableTracker
from graphwright.variables.constant import ConstantVariable

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator

_REAL_IMPORT = builtins.__import__


def _package(tx: Translator) -> str:
    """The package that relative imports of the frame start from.

    Source: `_calc___package__` in CPython's Lib/importlib/_bootstrap.py.
    """
    for name in ("__package__", "__name__"):
        found = tx.globals.lookup(tx, ConstantVariable(name))
        if found is None:
            continue
        value = found.realize()
        text = value.as_python_constant() if value.is_python_constant() else None
        if name == "__package__" and isinstance(text, str):
            return text
        if name == "__name__" and isinstance(text, str):
            has_path = tx.globals.lookup(tx, ConstantVariable("__path__")) is not None
            return text if has_path else text.rpartition(".")[0]
    tx.raise_(KeyError, "'__name__' not in globals")


def _absolute_name(tx: Translator, name: str, level: int) -> str:
    if level == 0:
        return name
    package = _package(tx)
    if not package:
        tx.raise_(ImportError, "attempted relative import with no known parent package")
    parts = package.rsplit(".", level - 1)
    if len(parts) < level:
        tx.raise_(ImportError, "attempted relative import beyond top-level package")
    return f"{parts[0]}.{name}" if name else parts[0]


def _module(tx: Translator, name: str) -> types.ModuleType:
    """A module by its absolute name: loaded already, or of a library whose import has no effect a user would see."""
    found = sys.modules.get(name)
    if isinstance(found, types.ModuleType):
        return found
    if name in sys.modules and found is None:
        tx.raise_(ModuleNotFoundError, f"import of {name} halted; None in sys.modules")
    parent, _, _ = name.rpartition(".")
    if parent:
        _module(tx, parent)
    if is_trusted_module(name):
        try:
            return importlib.import_module(name)
        except ImportError as error:
            tx.raise_(type(error), *error.args)
    if not parent and importlib.util.find_spec(name) is None:
        tx.raise_(ModuleNotFoundError, f"No module named {name!r}")
    tx.graph_break(gb.UNKNOWN_CALL, f"first import of the module {name}, which runs its code")


def _wrap_module(tx: Translator, module: types.ModuleType) -> VariableTracker:
    return tx.wrap(module, tx.capture.roots.constant(module))


@opcode("IMPORT_NAME")
def import_name(tx: Translator, inst: Instruction) -> None:
    """Import a module; without a from-list, push the top-level package.

    Stack: (level, from-list -- module)
    """
    from_list, level = tx.pop(), tx.pop()
    if builtins.__import__ is not _REAL_IMPORT:
        tx.graph_break(gb.DYNAMIC_CODE, "import while builtins.__import__ is replaced")
    name = _absolute_name(tx, inst.argval, level.as_python_constant())
    module = _module(tx, name)
    names = from_list.as_python_constant() or ()
    for wanted in names:
        if hasattr(module, "__path__") and not hasattr(module, wanted):
            _import_submodule(tx, f"{name}.{wanted}")
    tx.push(_wrap_module(tx, module if names else _module(tx, name.partition(".")[0])))


def _import_submodule(tx: Translator, name: str) -> None:
    """Import what may be a submodule; IMPORT_FROM raises where it is not."""
    if name not in sys.modules and importlib.util.find_spec(name) is not None:
        _module(tx, name)


@opcode("IMPORT_FROM")
def import_from(tx: Translator, inst: Instruction) -> None:
    """Push an attribute of the module on top.

    Stack: (module -- module, value)
    """
    owner = tx.peek(1)
    try:
        tx.push(owner.getattr(tx, inst.argval))
        return
    except ObservedException as signal:
        if not issubclass(signal.value.python_type(), AttributeError):
            raise
    name = owner.getattr(tx, "__name__").realize().as_python_constant()
    submodule = sys.modules.get(f"{name}.{inst.argval}")
    if isinstance(submodule, types.ModuleType):
        tx.push(_wrap_module(tx, submodule))
        return
    place = getattr(sys.modules.get(name), "__file__", None) or "unknown location"
    tx.raise_(ImportError, f"cannot import name {inst.argval!r} from {name!r} ({place})")
