"""Whether two runs of a program did the same: values compared as strictly as eager can be told from compiled."""

from __future__ import annotations

import dataclasses
import enum
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from graphwright.dim_marks import PROPAGATED

_ATOMS = (bool, int, str, bytes, type(None), torch.dtype, torch.device, torch.Size, torch.layout, slice, range)


class Likeness:
    """Compares values from two runs. One object for all values of the runs, so that cycles end."""

    def __init__(self, rtol: float = 0.0, atol: float = 0.0) -> None:
        self._rtol = rtol
        self._atol = atol
        self._met: dict[tuple[int, int], tuple[Any, Any]] = {}  # with the objects, lest an id is used again

    def difference(self, got: Any, want: Any, where: str = "result") -> str | None:
        """The first difference in words, or None."""
        if type(got) is not type(want):
            return f"{where}: {type(got).__name__} instead of {type(want).__name__}: {got!r} instead of {want!r}"[:400]
        if got is want or (id(got), id(want)) in self._met:
            return None
        self._met[id(got), id(want)] = (got, want)
        for kind, rule in _RULES:
            if isinstance(want, kind):
                return rule(self, got, want, where)
        return self._object(got, want, where)

    def _first(self, parts: Iterable[tuple[Any, Any, str]]) -> str | None:
        return next(filter(None, (self.difference(got, want, where) for got, want, where in parts)), None)

    def _tensor(self, got: torch.Tensor, want: torch.Tensor, where: str) -> str | None:
        for name, read in _TENSOR_FACTS.items():
            if read(got) != read(want):
                return f"{where}: {name} {read(got)} instead of {read(want)}"
        if not self._close(got.detach(), want.detach()):
            return f"{where}: values differ: {got} instead of {want}"[:600]
        attributes = {**want.__dict__}, {**got.__dict__}
        attributes[1].pop(PROPAGATED, None)  # torch's own note, which no program reads
        return self._dict(attributes[1], attributes[0], f"{where}.__dict__") or self._gradient(got, want, where)

    def _gradient(self, got: torch.Tensor, want: torch.Tensor, where: str) -> str | None:
        if _is_leaf(want) is not True:
            return None
        return self.difference(got.grad, want.grad, f"{where}.grad")

    def _close(self, got: torch.Tensor, want: torch.Tensor) -> bool:
        if got.is_meta:
            return True
        if got.layout is not torch.strided:
            got, want = got.to_dense(), want.to_dense()
        if not (self._rtol or self._atol) or not (want.is_floating_point() or want.is_complex()):
            return _same_bits(got, want)
        return torch.allclose(got, want, rtol=self._rtol, atol=self._atol, equal_nan=True)

    def _number(self, got: Any, want: Any, where: str) -> str | None:
        same = repr(got) == repr(want) or (  # repr tells -0.0 from 0.0 and takes NaN for NaN
            bool(self._rtol or self._atol) and math.isclose(abs(got), abs(want), rel_tol=self._rtol, abs_tol=self._atol)
        )
        return None if same else f"{where}: {got!r} instead of {want!r}"

    def _atom(self, got: Any, want: Any, where: str) -> str | None:
        return None if got == want else f"{where}: {got!r} instead of {want!r}"

    def _sequence(self, got: Any, want: Any, where: str) -> str | None:
        if len(got) != len(want):
            return f"{where}: length {len(got)} instead of {len(want)}"
        items = ((a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(list(got), list(want), strict=True)))
        return self._first(items) or self._state(got, want, where)

    def _dict(self, got: Any, want: Any, where: str) -> str | None:
        if len(got) != len(want):
            return f"{where}: keys {list(got)} instead of {list(want)}"
        keys = ((a, b, f"key {i} of {where}") for i, (a, b) in enumerate(zip(got, want, strict=True)))
        values = zip(dict.values(got), dict.values(want), want, strict=True)
        items = ((a, b, f"{where}[{key!r}]") for a, b, key in values)
        return self._first(keys) or self._first(items) or self._state(got, want, where)

    def _set(self, got: Any, want: Any, where: str) -> str | None:
        if len(got) != len(want) or (all(isinstance(x, _ATOMS) for x in want) and got != want):
            return f"{where}: {got!r} instead of {want!r}"
        return None

    def _exception(self, got: BaseException, want: BaseException, where: str) -> str | None:
        causes = ((got.__cause__, want.__cause__, f"{where}.__cause__"),)
        return self._sequence(got.args, want.args, f"{where}.args") or self._first(causes)

    def _function(self, got: FunctionType, want: FunctionType, where: str) -> str | None:
        if got.__code__ != want.__code__:
            return f"{where}: function {got!r} instead of {want!r}"
        return self._first(
            [
                (got.__defaults__, want.__defaults__, f"{where}.__defaults__"),
                (got.__kwdefaults__, want.__kwdefaults__, f"{where}.__kwdefaults__"),
                (got.__closure__, want.__closure__, f"{where}.__closure__"),
            ]
        )

    def _cell(self, got: CellType, want: CellType, where: str) -> str | None:
        try:
            expected = want.cell_contents
        except ValueError:
            expected = _EMPTY
        try:
            found = got.cell_contents
        except ValueError:
            found = _EMPTY
        return self.difference(found, expected, f"{where}.cell_contents")

    def _method(self, got: MethodType, want: MethodType, where: str) -> str | None:
        return self._first(
            [
                (got.__func__, want.__func__, f"{where}.__func__"),
                (got.__self__, want.__self__, f"{where}.__self__"),
            ]
        )

    def _identity(self, got: Any, want: Any, where: str) -> str | None:
        return None if got is want else f"{where}: {got!r} instead of {want!r}"

    def _object(self, got: Any, want: Any, where: str) -> str | None:
        plain = _compares_by_identity(want) or dataclasses.is_dataclass(want)
        if not plain and not _state_of(want):
            return self._atom(got, want, where)
        return self._state(got, want, where)

    def _state(self, got: Any, want: Any, where: str) -> str | None:
        mine, theirs = _state_of(got), _state_of(want)
        return self._dict(mine, theirs, where) if mine or theirs else None


class _Empty(enum.Enum):
    EMPTY = "EMPTY"


_EMPTY = _Empty.EMPTY


def _is_leaf(tensor: torch.Tensor) -> bool | str:
    try:
        return tensor.is_leaf
    except RuntimeError as refusal:  # a view whose base was written to in a way that leaves its history undefined
        return str(refusal)


_TENSOR_FACTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "dtype": lambda t: t.dtype,
    "shape": lambda t: tuple(t.shape),
    "device": lambda t: t.device,
    "layout": lambda t: t.layout,
    "stride": lambda t: t.stride() if t.layout is torch.strided else None,
    "requires_grad": lambda t: t.requires_grad,
    "is_leaf": _is_leaf,
    "is_conj": lambda t: t.is_conj(),
    "is_neg": lambda t: t.is_neg(),
    "is_inference": lambda t: t.is_inference(),
}

_RULES: tuple[tuple[Any, Callable[[Likeness, Any, Any, str], str | None]], ...] = (
    (torch.Tensor, Likeness._tensor),
    (enum.Enum, Likeness._identity),
    (_ATOMS, Likeness._atom),
    ((float, complex), Likeness._number),
    ((list, tuple, deque), Likeness._sequence),
    (dict, Likeness._dict),
    ((set, frozenset), Likeness._set),
    (BaseException, Likeness._exception),
    (FunctionType, Likeness._function),
    (CellType, Likeness._cell),
    (MethodType, Likeness._method),
    ((type, ModuleType), Likeness._identity),
)


def _same_bits(got: torch.Tensor, want: torch.Tensor) -> bool:
    if want.is_floating_point() or want.is_complex():
        return bool(((got == want) | ((got != got) & (want != want))).all())
    return torch.equal(got, want)


def _compares_by_identity(value: Any) -> bool:
    equality: Any = type(value).__eq__
    return equality is object.__eq__


def _state_of(value: Any) -> dict[str, Any]:
    """The attributes of an instance, in its dict and in slots."""
    found = dict(getattr(value, "__dict__", None) or {})
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def identity_pattern(values: Any, where: str = "") -> dict[str, str]:
    """For each place that holds an object or storage met before: the place where it was first met.

    Equal patterns mean that two runs shared the same objects and memory between arguments and results.
    """
    first: dict[object, str] = {}
    pattern: dict[str, str] = {}
    for place, value in list(_places(values, where, set())):  # a list keeps all of them alive, and their ids their own
        marks: list[object] = [id(value)]
        if isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_meta:
            address = value.untyped_storage().data_ptr()
            marks += [("storage", address)] if address else []
        for mark in marks:
            known = first.setdefault(mark, place)
            if known != place:
                pattern[f"{place}{'' if isinstance(mark, int) else ' (storage)'}"] = known
    return pattern


def _places(value: Any, where: str, open_ids: set[int]) -> Iterator[tuple[str, Any]]:
    """Every mutable object reachable through containers and instance attributes, with its place."""
    if isinstance(value, (*_ATOMS, float, complex, type, FunctionType, ModuleType, enum.Enum)):
        return
    if not isinstance(value, (tuple, frozenset)):
        yield where, value
    if id(value) in open_ids or isinstance(value, torch.Tensor):
        return
    open_ids.add(id(value))
    if isinstance(value, (list, tuple, deque)):
        for i, item in enumerate(list(value)):
            yield from _places(item, f"{where}[{i}]", open_ids)
    elif isinstance(value, dict):
        for key, item in list(dict.items(value)):
            yield from _places(item, f"{where}[{key!r}]", open_ids)
    elif isinstance(value, torch.nn.Module) or _compares_by_identity(value):
        for name, item in _state_of(value).items():
            yield from _places(item, f"{where}.{name}", open_ids)


def seed_all(seed: int) -> None:
    """Bring torch's and Python's generators into a known state."""
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:  # the general way takes milliseconds, to note for each kind of device where it was asked for
        torch.default_generator.manual_seed(seed)
    random.seed(seed)


def random_states() -> tuple[bytes, object]:
    """The states of torch's and Python's generators."""
    return bytes(torch.get_rng_state().tolist()), random.getstate()
