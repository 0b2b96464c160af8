"""When objects go: code that runs then, `__del__` or a weak reference's answer, comes when it does in eager."""

from __future__ import annotations

import gc
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import graphwright
from graphwright import events

pytestmark = pytest.mark.e2e
Log = list[Any]


class Loud:
    """Says when it goes."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.x = torch.ones(2)

    def __del__(self) -> None:
        self.log.append("gone")


@graphwright.disable
def loud(log: Log) -> Loud:
    return Loud(log)


@contextmanager
def without_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def value_of_a_temporary(log: Log, x: torch.Tensor) -> torch.Tensor:
    y = x + loud(log).x
    log.append(1)
    return y


def made_inside(log: Log, x: torch.Tensor) -> torch.Tensor:
    y = x + Loud(log).x
    log.append(1)
    return y


def rebound(log: Log, x: torch.Tensor) -> torch.Tensor:
    a = loud(log)
    log.append(1)
    y = x + a.x
    a = None
    log.append(2)
    return y * 2


def deleted(log: Log, x: torch.Tensor) -> torch.Tensor:
    a = loud(log)
    y = x + a.x
    log.append(1)
    del a
    log.append(2)
    return y * 2


def attribute_replaced(log: Log, x: torch.Tensor) -> torch.Tensor:
    holder = torch.nn.Identity()
    holder.held = loud(log)
    y = x + holder.held.x
    log.append(1)
    holder.held = None
    log.append(2)
    return y * 2


def items_replaced(log: Log, x: torch.Tensor) -> torch.Tensor:
    table, items = {0: loud(log), 1: loud(log)}, [loud(log), loud(log)]
    log.append(1)
    table[0] = None
    log.append(2)
    del table[1]
    log.append(3)
    items[0] = 1
    log.append(4)
    items.pop()
    log.append(5)
    return x * 2


def generator_dropped(log: Log, x: torch.Tensor) -> torch.Tensor:
    def steps() -> Iterator[int]:
        try:
            yield 1
        finally:
            log.append("closed")

    started = started_outside(steps)
    y = x + 1
    started = None
    log.append(2)
    return y * 2


@graphwright.disable
def started_outside(steps: Callable[[], Iterator[int]]) -> Iterator[int]:
    generator = steps()
    next(generator)
    return generator


PROGRAMS = [
    value_of_a_temporary,
    made_inside,
    rebound,
    deleted,
    attribute_replaced,
    items_replaced,
    generator_dropped,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_code_that_runs_when_an_object_goes(program: Callable[[Log, torch.Tensor], torch.Tensor]) -> None:
    x = torch.arange(2.0)
    compiled = graphwright.compile(program, backend="eager")
    with without_collection():
        expected: Log = []
        result = program(expected, x)
        for _ in range(3):
            log: Log = []
            assert torch.equal(compiled(log, x), result)
            assert log == expected


def test_a_dict_changed_by_the_end_of_a_value_while_it_is_iterated() -> None:
    class Clearing(int):
        def __del__(self) -> None:
            table.clear()

    def program(x: torch.Tensor) -> torch.Tensor:
        for key, _ in table.items():
            if key == 2:
                table[2] = None
        return x + 1

    compiled = graphwright.compile(program, backend="eager")
    for _ in range(2):
        table = {i: Clearing(i) for i in range(8)}
        with pytest.raises(RuntimeError, match="changed size during iteration"):
            compiled(torch.ones(2))


def test_a_lookup_that_runs_code_of_a_key() -> None:
    asked: list[str] = []

    class Key(str):
        def __eq__(self, other: object) -> bool:
            asked.append(str(other))
            return NotImplemented

        def __hash__(self) -> int:
            return hash("wanted")

    table = {Key("other"): 1}

    def program(x: torch.Tensor) -> Any:
        return x + 1, "wanted" in table

    program(torch.ones(2))
    once = len(asked)
    compiled = graphwright.compile(program, backend="eager")
    for _ in range(2):
        asked.clear()
        assert compiled(torch.ones(2))[1] is False
        assert len(asked) == once


def test_a_variable_that_is_not_read_any_more_lives_as_long_as_its_frame() -> None:
    seen: list[bool] = []

    class Plain:
        pass

    @graphwright.disable
    def look(reference: weakref.ref[Any]) -> None:
        seen.append(reference() is not None)

    def inner(x: torch.Tensor) -> Any:
        kept = Plain()
        reference = weakref.ref(kept)
        y = x + 1
        look(reference)
        return y, reference

    def outer(x: torch.Tensor) -> Any:
        y, reference = inner(x * 2)
        look(reference)
        return y * 3

    for program in (inner, outer):
        compiled = graphwright.compile(program, backend="eager")
        with without_collection():
            seen.clear()
            program(torch.ones(2))
            expected = seen.copy()
            for _ in range(2):
                seen.clear()
                compiled(torch.ones(2))
                assert seen == expected


def test_a_capture_keeps_nothing_of_its_call() -> None:
    """Not even until the next garbage collection: what a first call was given may be large."""

    class Holder:
        def __init__(self) -> None:
            self.x = torch.ones(3)
            self.items = [torch.ones(3)]

    def whole(holder: Holder, x: torch.Tensor) -> torch.Tensor:
        holder.items.append(x)
        return holder.x * x + holder.items[0]

    def breaking(holder: Holder, x: torch.Tensor) -> torch.Tensor:
        y = holder.x * x
        graphwright.graph_break()
        holder.items.clear()
        return y + vars(holder)["x"]

    def inlining(holder: Holder, x: torch.Tensor) -> torch.Tensor:
        return breaking(holder, x * 2)

    for program in (whole, breaking, inlining):
        compiled = graphwright.compile(program, backend="eager")
        with without_collection():
            holder, x = Holder(), torch.ones(3)
            gone = [weakref.ref(holder), weakref.ref(x), weakref.ref(holder.items[0])]
            compiled(holder, x)
            del holder, x
            assert [reference() for reference in gone] == [None, None, None], program.__name__


def test_weak_references_of_guards_are_not_the_programs() -> None:
    """Else what an entry holds by its identity (`len`, here) breaks the graph where the next entry lets go of it."""

    def program(x: torch.Tensor, items: list[int]) -> Any:
        return x * len(x.nonzero()) * len(items)

    compiled = graphwright.compile(program, backend="eager")
    with events.collected(events.GraphBroke) as breaks:
        for n in range(1, 4):
            assert compiled(torch.ones(2), [0] * n).tolist() == [2 * n, 2 * n]
    assert [event.gw_id for event in breaks] == ["GW0002"]


def test_a_constant_tuple_is_one_object() -> None:
    @graphwright.disable
    def is_one(first: Any, second: Callable[[], Any]) -> bool:
        return first is second()

    def program(x: torch.Tensor, n: int) -> Any:
        literal, made = (1, 2, 3), (1, n)
        held = [literal, made]
        before = is_one(literal, lambda: literal), is_one(made, lambda: made)
        after = is_one(literal, lambda: held[0]), is_one(made, lambda: held[1])
        return x + 1, before, after

    compiled = graphwright.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2), 5)[1:] == ((True, True), (True, True))


def kept_by_a_variable_that_is_not_read(log: Log, x: torch.Tensor) -> torch.Tensor:
    a = loud(log)
    y = x + 1
    graphwright.graph_break()
    log.append(1)
    return y


def kept_until_rebound(log: Log, x: torch.Tensor) -> torch.Tensor:
    a = loud(log)
    y = x + 1
    graphwright.graph_break()
    log.append(1)
    a = None
    log.append(2)
    return y


def held_by_a_list(log: Log, x: torch.Tensor) -> torch.Tensor:
    held = [loud(log)]
    other = held + [1]
    held = None
    log.append(1)
    other = None
    log.append(2)
    return x + 1


def held_by_a_closure(log: Log, x: torch.Tensor) -> torch.Tensor:
    a = loud(log)

    def f() -> Loud:
        return a

    a = None
    log.append(1)
    f = None  # noqa: F811
    log.append(2)
    return x + 1


def held_by_a_frame_that_raises(log: Log, x: torch.Tensor) -> torch.Tensor:
    def inner() -> None:
        a = loud(log)
        raise ValueError

    try:
        inner()
    except ValueError:
        log.append("handled")
    log.append("end")
    return x + 1


def leading_to_itself(log: Log, x: torch.Tensor) -> torch.Tensor:
    a = loud(log)
    a.me = [a]
    a.me.clear()
    a = None
    log.append(1)
    return x + 1


def an_open_file(log: Log, x: torch.Tensor) -> torch.Tensor:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data")
        with open(path, "w") as f:
            f.write("hello")
        f = open(path)
        number = f.fileno()
        y = x + 1
        log.append(os.read(number, 5))
        f = None
        try:
            os.fstat(number)
        except OSError:
            log.append("closed")
    return y


def weak_references(log: Log, x: torch.Tensor) -> torch.Tensor:
    class Plain:
        pass

    y = x + 1
    of_tensor, of_temporary, a = weakref.ref(y), weakref.ref(x + 2), Plain()
    of_object = weakref.ref(a)
    z = y.detach() * 2
    log.append((of_tensor() is None, of_temporary() is None, of_object() is None))
    del y
    a = None
    log.append((of_tensor() is None, of_object() is None))
    return z


@pytest.mark.parametrize(
    "program",
    [
        kept_by_a_variable_that_is_not_read,
        kept_until_rebound,
        held_by_a_list,
        held_by_a_closure,
        held_by_a_frame_that_raises,
        leading_to_itself,
        an_open_file,
        weak_references,
    ],
    ids=lambda program: program.__name__,
)
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_who_holds_an_object_across_a_graph_break(program: Callable[[Log, torch.Tensor], torch.Tensor]) -> None:
    test_code_that_runs_when_an_object_goes(program)
