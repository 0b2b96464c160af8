"""Failed guards in the user's words: from what the native walk says to a `GuardFailure`."""

from __future__ import annotations

import enum
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeAlias, cast

import torch

from graphwright.guards.failure import GuardFailure
from graphwright.native_setup import read_storage
from graphwright.shapes.symbols import Place
from graphwright.sources import Source
from graphwright.torch_compat import DisableTorchFunction, dispatch_keys_that_differ

Miss: TypeAlias = tuple[Any, Any, Any]
"""What `_native.GuardTree.why_not` gives."""

_LIMIT = 200
_PLAIN = frozenset(
    {bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format}
)
"""Types, not those derived from them, whose `repr` runs no code of the program's."""
_CONTAINERS: tuple[Any, ...] = (tuple, list, dict, str, set, frozenset, bytes, bytearray, deque)
_DIFFERENCE = re.compile(
    r"(?P<what>.*?) mismatch(?: at index (?P<at>\d+))?: expected (?P<expected>.*), actual (?P<actual>.*)"
)
_DEVICES = {0: "cpu", 1: "cuda", 6: "hip", 9: "xla", 12: "xpu", 13: "mps", 14: "meta", 15: "hpu", 19: "mtia",
            20: "privateuse1"}  # fmt: skip
_LAYOUTS = {0: "strided", 1: "sparse_coo", 2: "sparse_csr", 3: "mkldnn", 4: "sparse_csc", 5: "sparse_bsr",
            6: "sparse_bsc", 7: "jagged"}  # fmt: skip
_AMBIENT = {
    "grad_mode": "grad mode",
    "inference_mode": "inference mode",
    "default_dtype": "default dtype",
    "deterministic": "deterministic algorithms",
    "deterministic_warn_only": "deterministic algorithms (warn only)",
    "autocast_cache": "autocast cache",
    "autocast_cpu_dtype": "autocast dtype of cpu",
    "autocast_cuda_dtype": "autocast dtype of cuda",
    "function_modes": "torch function modes (a default device is one)",
    "dispatch_modes": "torch dispatch modes",
    "function_mode_state": "whether torch functions can be overridden",
    "attention_kernels": "allowed attention kernels",
    "num_threads": "number of threads",
}


@dataclass(frozen=True, slots=True)
class FrameNames:
    """What the code calls its argument slots and the variables of its closure."""

    arguments: Sequence[str]
    closure: Sequence[str]

    def source(self, path: Sequence[tuple[str, Any]]) -> Source:
        """The source that a path of native accessors stands for."""
        source: Source | None = None
        for accessor, key in path:
            names = {"local": self.arguments, "closure_cell": self.closure}.get(accessor, ())
            hint = names[key] if source is None and isinstance(key, int) and key < len(names) else ""
            source = Source(source, accessor, key, hint)
        if source is None:
            raise ValueError("a path has at least its root")
        return source


def in_words(miss: Miss, names: FrameNames) -> GuardFailure:
    """Say why the guards of an entry do not hold."""
    where, check, found = miss
    kind, *rest = check
    if kind == "ambient":
        return _ambient(*rest)
    if kind == "relation":
        sources = [str(names.source(path)) if path else "?" for path in where]
        return _RELATIONS[rest[0][0]](rest[0], sources, found)
    return _CHECKS[kind](str(names.source(where)), rest[0] if rest else None, found)


# ------------------------------------------------------------------ values


def _label(value: object) -> str:
    """An object in a few words, without running code of the program's."""
    kind = type(value)
    if kind is MethodType:
        function = cast(MethodType, value).__func__
        return f"the method {function.__qualname__ if type(function) is FunctionType else _label(function)}"
    if kind is FunctionType:
        function = cast(FunctionType, value)
        code = function.__code__
        return f"the function {function.__qualname__} at {code.co_filename}:{code.co_firstlineno}"
    if kind is BuiltinFunctionType:
        return f"the builtin function {cast(BuiltinFunctionType, value).__name__}"
    if issubclass(kind, type):
        return f"the class {cast(type, value).__qualname__}"
    if issubclass(kind, enum.Enum):
        return f"{kind.__qualname__}.{object.__getattribute__(value, '_name_')}"
    return _shown(value) if _is_plain(value) else f"an object of {kind.__qualname__}"


def _shown(value: object) -> str:
    text = repr(value) if _is_plain(value) else _label(value)
    return text if len(text) <= _LIMIT else f"{text[: _LIMIT - 4]} ..."


def _is_plain(value: object) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain, cast("list[object]", value)))
    return type(value) in _PLAIN


def _data(value: object) -> object:
    return value if _is_plain(value) else _label(value)


# ------------------------------------------------------------------ checks of one value


def _condition(kind: str, source: str, condition: str, expected: object, actual: object) -> GuardFailure:
    return GuardFailure(kind, source, f"{condition}, actual {_shown(actual)}", _data(expected), _data(actual))


def _equality(source: str, expected: object, found: object) -> GuardFailure:
    return _condition("value", source, f"{source} == {_shown(expected)}", expected, found)


def _type(source: str, expected: Any, found: object) -> GuardFailure:
    name = getattr(expected, "__qualname__", "a class that is gone")
    actual = type(found).__qualname__
    return GuardFailure("type", source, f"type({source}) is {name}, actual {actual}", name, actual)


def _identity(source: str, expected: object, found: object) -> GuardFailure:
    if expected is None and found is not None:  # held weakly
        return GuardFailure("identity", source, f"{source} is an object that is gone, actual {_label(found)}")
    mine, theirs = _label(expected), _label(found)
    text = f"{source} is {mine}, actual " + (f"another: {theirs}" if mine == theirs else theirs)
    return GuardFailure("identity", source, text, mine, theirs)


def _length(source: str, expected: object, found: object) -> GuardFailure:
    base = next((c for c in _CONTAINERS if issubclass(type(found), c)), None)
    actual = base.__len__(found) if base is not None else _label(found)
    return _condition("length", f"len({source})", f"len({source}) == {expected}", expected, actual)


def _keys(source: str, expected: Any, found: object) -> GuardFailure:
    keys = list(map(_data, expected))
    actual: object = _label(found)
    if issubclass(type(found), dict):
        actual = list(map(_data, dict.keys(cast("dict[object, object]", found))))
    elif type(found) in (set, frozenset):  # not a subclass, whose order its own code may decide
        actual = list(map(_data, iter(cast("set[object]", found))))
    return _condition("keys", source, f"list({source}) == {_shown(keys)}", keys, actual)


def _dict_has(source: str, key: object, found: object) -> GuardFailure:
    return GuardFailure("keys", source, f"{_shown(key)} in {source}, actual not in it", True, False)


def _dict_lacks(source: str, key: object, found: object) -> GuardFailure:
    return GuardFailure("keys", source, f"{_shown(key)} not in {source}, actual in it", False, True)


def _absent(source: str, _: object, found: object) -> GuardFailure:
    return _condition("presence", source, f"{source} does not exist", "missing", found)


def _fetch(source: str, _: object, found: object) -> GuardFailure:
    return GuardFailure("presence", source, f"{source} exists, actual missing", "present", "missing")


def _truth(source: str, expected: object, found: object) -> GuardFailure:
    return GuardFailure("value", source, f"bool({source}) is {expected}, actual {not expected}", expected, not expected)


def _tensor(source: str, detail: str | None, found: object) -> GuardFailure:
    match = _DIFFERENCE.fullmatch(detail or "")
    if match is None:
        return GuardFailure("tensor", source, f"tensor '{source}': {detail or 'it differs'}")
    what, at = match["what"], match["at"]
    expected, actual = _number(what, match["expected"]), _number(what, match["actual"])
    if what == "type":
        expected, actual = re.sub(r"<class '(.*)'>", r"\1", str(expected)), type(found).__qualname__
    index = f" at index {at}" if at else ""
    text = f"tensor '{source}' {what} mismatch{index}. expected {expected}, actual {actual}"
    place = f"{source}.{what}({at})" if at else source
    return GuardFailure(what, place, text, expected, actual)


def _number(what: str, text: str) -> object:
    if text in ("True", "False"):
        return text == "True"
    if not re.fullmatch(r"-?\d+", text):
        dtype = getattr(torch, text.removeprefix("torch."), None)
        return dtype if what == "dtype" and isinstance(dtype, torch.dtype) else text
    names = {"device type": _DEVICES, "layout": _LAYOUTS}.get(what, {})
    return names.get(int(text), int(text))


_CHECKS: dict[str, Callable[[str, Any, Any], GuardFailure]] = {
    "eq": _equality,
    "type": _type,
    "id": _identity,
    "len": _length,
    "keys": _keys,
    "dict_has": _dict_has,
    "dict_lacks": _dict_lacks,
    "absent": _absent,
    "fetch": _fetch,
    "truth": _truth,
    "tensor": _tensor,
}


# ------------------------------------------------------------------ the thread's state


def _ambient(name: str, expected: object, found: object) -> GuardFailure:
    if name in ("included", "excluded") and isinstance(expected, int) and isinstance(found, int):
        keys = dispatch_keys_that_differ(expected, found)
        device = keys[0].removeprefix("Autocast").lower() if keys and keys[0].startswith("Autocast") else ""
        if device in ("cpu", "cuda", "xpu", "mps"):
            is_on = torch.is_autocast_enabled(device)
            return _state(f"autocast on {device}", not is_on, is_on)
        return GuardFailure(
            "global state", name, f"dispatch keys of the thread: {', '.join(keys)} {name}, or no longer"
        )
    what = _AMBIENT.get(name, name)
    if isinstance(expected, tuple):  # keys of function modes, as many as before
        return GuardFailure("global state", what, f"{what}: others are active than in the capture")
    return _state(what, expected, found)


def _state(what: str, expected: object, found: object) -> GuardFailure:
    text = f"{what}: expected {_shown(expected)}, actual {_shown(found)}"
    return GuardFailure("global state", what, text, _data(expected), _data(found))


# ------------------------------------------------------------------ relations


def _same(spec: Any, sources: list[str], found: Any) -> GuardFailure:
    first, other = sources[0], sources[-1]
    return GuardFailure("identity", first, f"{first} is {other}, actual two objects", "the same", "different")


def _distinct(spec: Any, sources: list[str], found: Any) -> GuardFailure:
    pairs = ((i, j) for j in range(len(sources)) for i in range(j) if found is not None and found[i] is found[j])
    first, other = next(pairs, (0, len(sources) - 1))
    text = f"{sources[first]} is not {sources[other]}, actual the same object"
    return GuardFailure("identity", sources[first], text, "different", "the same")


def _storages(spec: Any, sources: list[str], found: Any) -> GuardFailure:
    groups = spec[2]
    memory = [read_storage(value) if issubclass(type(value), torch.Tensor) else 0 for value in found or ()]
    for j in range(len(memory)):
        for i in range(j):
            shared, was = memory[i] == memory[j] and memory[i] != 0, groups[i] == groups[j]
            if shared != was:
                text = f"{sources[i]} and {sources[j]} " + ("share memory" if was else "do not share memory")
                return GuardFailure(
                    "aliasing", sources[i], f"{text}, actual they {'do' if shared else 'do not'}", was, shared
                )
    names = " and ".join(sources)
    return GuardFailure("aliasing", sources[0], f"{names} share memory as in the capture, actual in another way")


def _shape(spec: Any, sources: list[str], found: Any) -> GuardFailure:
    _, _, places, _, text = spec
    named = {}
    for kind, position, index in places:
        root = Source(None, "constant", None)
        suffix = str(Place(kind, root, index)).removeprefix(str(root))
        named[f"{sources[position]}{suffix}"] = _number_at(kind, found[position] if found else None, index)
    actual = ", ".join(f"{name} is {number}" for name, number in named.items())
    return GuardFailure("relation of sizes", " and ".join(named), f"{text}, actual {actual}", text, actual)


def _number_at(kind: str, value: Any, index: int) -> object:
    if not issubclass(type(value), torch.Tensor):
        return _data(value)
    with DisableTorchFunction():
        if kind == "size":
            return value.shape[index] if index < value.dim() else None
        if kind == "stride":
            return value.stride(index) if index < value.dim() else None
        return value.storage_offset()


_RELATIONS: dict[str, Callable[[Any, list[str], Any], GuardFailure]] = {
    "same": _same,
    "distinct": _distinct,
    "storages": _storages,
    "shape": _shape,
}
