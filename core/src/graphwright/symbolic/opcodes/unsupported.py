"""The opcodes that are not translated, each with its reason."""

from __future__ import annotations

from typing import Final

from graphwright.symbolic.dispatch import TABLE

_CLASS_BODY = "runs in class and module bodies only, which are never translated"
_ASYNC = "asynchronous code is run by an event loop, not by this frame"
_GROUPS = "`except*` splits exception groups, which are not modelled"
_INTERPRETER = "belongs to the interpreter's own frames, never to a function's"

UNSUPPORTED: Final[dict[str, str]] = {
    "LOAD_BUILD_CLASS": "a class statement makes a new class each time it runs",
    "LOAD_NAME": _CLASS_BODY,
    "STORE_NAME": _CLASS_BODY,
    "DELETE_NAME": _CLASS_BODY,
    "LOAD_CLASSDEREF": _CLASS_BODY,
    "LOAD_LOCALS": _CLASS_BODY,
    "LOAD_FROM_DICT_OR_DEREF": _CLASS_BODY,
    "LOAD_FROM_DICT_OR_GLOBALS": _CLASS_BODY,
    "SETUP_ANNOTATIONS": _CLASS_BODY,
    "IMPORT_STAR": _CLASS_BODY,
    "PRINT_EXPR": "runs in interactive input only",
    "GET_AWAITABLE": _ASYNC,
    "GET_AITER": _ASYNC,
    "GET_ANEXT": _ASYNC,
    "END_ASYNC_FOR": _ASYNC,
    "BEFORE_ASYNC_WITH": _ASYNC,
    "ASYNC_GEN_WRAP": _ASYNC,
    "CHECK_EG_MATCH": _GROUPS,
    "PREP_RERAISE_STAR": _GROUPS,
    "INTERPRETER_EXIT": _INTERPRETER,
    "EXIT_INIT_CHECK": _INTERPRETER,
    "ENTER_EXECUTOR": _INTERPRETER,
    "RESERVED": _INTERPRETER,
}
"""Opcodes without a handler, and why. Reaching one breaks the graph with the reason."""

for _name, _reason in UNSUPPORTED.items():
    TABLE.refuse(_name, _reason)
