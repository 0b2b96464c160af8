"""The standard library, taken apart and put together again."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

import pytest

from graphwright.bytecode import decode
from graphwright.bytecode.versions import LOCAL_PAIRS

Rebuild = Callable[[CodeType], CodeType]


def described(code: CodeType, *, skip_first_jump: bool) -> list[tuple[Any, ...]]:
    """Everything about the reachable instructions after the prologue, with targets counted among them."""
    decoded = decode(code)
    start = next(i.index for i in decoded.instructions if i.opname == "RESUME") + 1
    reachable = [index for index in sorted(decoded.reachable_from(0)) if index >= start + skip_first_jump]
    ordinal: dict[int, int] = {}
    count = 0
    for index in reachable:
        ordinal[index] = count
        count += 2 if decoded.instructions[index].opcode in LOCAL_PAIRS else 1
    rows = []
    for index in reachable:
        instruction = decoded.instructions[index]
        handler = decoded.handler_for(index)
        guard = handler and (ordinal[handler.target], handler.depth, handler.lasti)
        position = (instruction.line, instruction.end_line, instruction.col, instruction.end_col)
        if instruction.opcode in LOCAL_PAIRS:
            for opname, name in zip(LOCAL_PAIRS[instruction.opcode], instruction.argval, strict=True):
                rows.append((opname, repr(name), position, guard))
            continue
        argument = repr(instruction.argval) if instruction.target is None else ordinal[instruction.target]
        rows.append((instruction.opname, argument, position, guard))
    return rows


def test_nothing_changes(library_code: list[CodeType], rebuilt: Rebuild) -> None:
    for code in library_code:
        new = rebuilt(code)
        assert described(new, skip_first_jump=True) == described(code, skip_first_jump=False)
        for attribute in ("co_name", "co_qualname", "co_filename", "co_firstlineno", "co_flags", "co_freevars"):
            assert getattr(new, attribute) == getattr(code, attribute)
        assert new.co_cellvars == code.co_cellvars
        assert set(new.co_varnames) <= set(code.co_varnames)


def rebuilt_module(name: str, rebuilt_deeply: Rebuild, library_module_code: Callable[[str], CodeType]) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(__package__=name.rpartition(".")[0], __file__=importlib.import_module(name).__file__)
    exec(rebuilt_deeply(library_module_code(name)), module.__dict__)
    return module


def use_textwrap(module: Any) -> Any:
    return module.fill("some words " * 20, width=30), module.dedent("   a\n    b\n"), module.shorten("a b c" * 9, 12)


def use_json(module: Any) -> Any:
    decoder = module.JSONDecoder(parse_float=str)
    return decoder.decode('{"a": [1, 2.5, null, {"b": "\\u00e9"}], "c": -1e9}')


def use_heapq(module: Any) -> Any:
    return list(module.merge([1, 4], [2, 3], key=lambda x: x)), module.nsmallest(2, [5, 1, 4], key=lambda x: -x)


def use_dataclasses(module: Any) -> Any:
    @module.dataclass(order=True, frozen=True)
    class Point:
        x: int
        y: int = 3

    return module.asdict(Point(1)), Point(1) < Point(2), hash(Point(1)), repr(module.replace(Point(1), y=9))


def use_contextlib(module: Any) -> Any:
    log = []

    @module.contextmanager
    def manager(name: str) -> Any:
        log.append(f"enter {name}")
        try:
            yield name
        finally:
            log.append(f"exit {name}")

    with module.suppress(KeyError), module.ExitStack() as stack:
        stack.enter_context(manager("a"))
        stack.enter_context(manager("b"))
        raise KeyError
    return log


def use_statistics(module: Any) -> Any:
    data = [1.5, 2.5, 2.75, 3.25, 4.75]
    return module.stdev(data), module.median(data), module.quantiles(data, n=4), module.NormalDist(1, 2).cdf(0.5)


def use_difflib(module: Any) -> Any:
    return list(module.unified_diff(["a", "b", "c"], ["a", "x", "c"])), module.get_close_matches(
        "appel", ["ape", "apple"]
    )


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("textwrap", use_textwrap),
        ("json.decoder", use_json),
        ("heapq", use_heapq),
        ("dataclasses", use_dataclasses),
        ("contextlib", use_contextlib),
        ("statistics", use_statistics),
        ("difflib", use_difflib),
    ],
)
def test_rebuilt_modules_work(
    name: str, use: Callable[[Any], Any], rebuilt_deeply: Rebuild, library_module_code: Callable[[str], CodeType]
) -> None:
    assert use(rebuilt_module(name, rebuilt_deeply, library_module_code)) == use(importlib.import_module(name))


def test_generators_and_coroutines_work(rebuilt: Rebuild) -> None:
    def numbers(n: int) -> Any:
        try:
            got = yield from range(n)
            got = yield got
        except ValueError as error:
            yield str(error)

    async def waits(n: int) -> int:
        return n + 1

    expected = numbers(2)
    numbers.__code__ = rebuilt(numbers.__code__)
    found = numbers(2)
    assert [next(found), next(found), next(found)] == [next(expected), next(expected), next(expected)]
    assert found.throw(ValueError("thrown")) == "thrown"
    waits.__code__ = rebuilt(waits.__code__)
    with pytest.raises(StopIteration, match="8"):
        waits(7).send(None)
