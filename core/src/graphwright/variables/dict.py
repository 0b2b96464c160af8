"""The variables of Python's dicts, in one place for those that make them."""

from __future__ import annotations

from graphwright.variables.dict_methods import copy_of, merge
from graphwright.variables.dict_variable import DictVariable, Entry
from graphwright.variables.dict_views import DictViewVariable, MappingProxyVariable

__all__ = ["DictVariable", "DictViewVariable", "Entry", "MappingProxyVariable", "copy_of", "merge"]
