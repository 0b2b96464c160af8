"""`nn.Module` objects: ordinary objects, with short cuts through the code that all of them share.

The short cuts do what `Module.__call__` and `Module.__getattr__` would do when inlined, with the same guards.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules import module as module_globals

from graphwright.variables.base import Args, Kwargs, Tx, VariableTracker, is_the
from graphwright.variables.constant import ConstantVariable
from graphwright.variables.dict import DictVariable
from graphwright.variables.object_model import class_attribute, find_in_mro
from graphwright.variables.user_defined import ObjectVariable

_OWN_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
_GLOBAL_HOOKS = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
)
_MODULE_CALL = torch.nn.Module.__call__
_MODULE_GETATTR = torch.nn.Module.__getattr__
_STATE = ("_parameters", "_buffers", "_modules")


class ModuleVariable(ObjectVariable):
    """An `nn.Module`."""

    def _fallback_getattr(self, tx: Tx, name: str, signal: Any) -> VariableTracker:
        found = find_in_mro(self.cls.__mro__, "__getattr__")
        if found is None or found[0] is not _MODULE_GETATTR or signal is not None:
            return super()._fallback_getattr(tx, name, signal)
        class_attribute(tx, self.cls, "__getattr__")
        for table in _STATE:
            held = self.state_table(tx, table)
            value = held.lookup(tx, ConstantVariable(name)) if held is not None else None
            if value is not None:
                return value
        tx.raise_(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def state_table(self, tx: Tx, name: str) -> DictVariable | None:
        """A dict among the module's own attributes, such as `_parameters`."""
        assert self.attrs is not None
        held = self.attrs.lookup(tx, ConstantVariable(name))
        table = held.realize() if held is not None else None
        return table if isinstance(table, DictVariable) else None

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        found = find_in_mro(self.cls.__mro__, "__call__")
        if found is not None and found[0] is _MODULE_CALL:
            class_attribute(tx, self.cls, "__call__")
            if self._calls_forward_only(tx):
                with tx.capture.module_scope(self):
                    return tx.call(self.getattr(tx, "forward"), args, kwargs)
        return super().call(tx, args, kwargs)

    def _calls_forward_only(self, tx: Tx) -> bool:
        """Whether no hook of any kind is registered now; guarded."""
        compiled = self.attrs.lookup(tx, ConstantVariable("_compiled_call_impl")) if self.attrs is not None else None
        if compiled is not None and not _is_none(compiled):
            return False
        for name in _OWN_HOOKS:
            table = self.state_table(tx, name)
            if table is None or table.truth(tx):
                return False
        for name in _GLOBAL_HOOKS:
            source = tx.capture.roots.constant(module_globals).instance_dict().dict_item(name)
            if tx.wrap(getattr(module_globals, name), source).truth(tx):
                return False
        return True


def _is_none(value: VariableTracker) -> bool:
    value = value.realize()
    return is_the(value, None)
