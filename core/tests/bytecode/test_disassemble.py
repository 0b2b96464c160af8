"""Decoding, compared with `dis`."""

from __future__ import annotations

import dis
import gc
import sys
import weakref
from types import CodeType, FunctionType
from typing import Any

import pytest

from graphwright.bytecode import BytecodeError, decode, disassemble, variable_names


def fields(instruction: Any) -> tuple[Any, ...]:
    """What `dis` and we both say of an instruction, in comparable form (constants may be NaN)."""
    return (instruction.offset, instruction.opcode, instruction.opname, instruction.arg, repr(instruction.argval))


def test_agrees_with_dis_on_the_standard_library(library_code: list[CodeType]) -> None:
    for code in library_code:
        expected = [i for i in dis.get_instructions(code) if i.opname not in ("EXTENDED_ARG", "CACHE")]
        found = decode(code).instructions
        # dis does not resolve KW_NAMES on 3.11.
        ours = [fields(i) for i in found if i.opname != "KW_NAMES"]
        assert ours == [fields(i) for i in expected if i.opname != "KW_NAMES"]
        positions = [(i.line, i.end_line, i.col, i.end_col) for i in found]
        assert positions == [tuple(i.positions) for i in expected if i.positions is not None]


def test_targets_are_the_instructions_dis_jumps_to(library_code: list[CodeType]) -> None:
    for code in library_code:
        decoded = decode(code)
        for instruction in decoded.instructions:
            if instruction.target is not None:
                assert decoded.index_at(instruction.argval) == instruction.target
                # A jump may lead to the EXTENDED_ARG before its target.
                assert decoded.instructions[instruction.target].offset >= instruction.argval


def test_handlers_are_those_of_the_table(library_code: list[CodeType]) -> None:
    for code in library_code:
        decoded = decode(code)
        table = dis._parse_exception_table(code)  # type: ignore[attr-defined]
        for instruction in decoded.instructions:
            expected = [entry for entry in table if entry.start <= instruction.offset < entry.end]
            handler = decoded.handler_for(instruction.index)
            assert (handler is None) == (not expected)
            if handler is not None:
                assert handler.target == decoded.index_at(expected[0].target)
                assert (handler.depth, handler.lasti) == (expected[0].depth, expected[0].lasti)
                assert handler.start <= instruction.index < handler.end


def many_names(count: int) -> CodeType:
    lines = [f"    use(name_{i}, {i} + 1000.5)" for i in range(count)]
    source = "def f(use, x):\n    while x:\n" + "\n".join(f"    {line}" for line in lines)
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    function = namespace["f"]
    assert isinstance(function, FunctionType)
    return function.__code__


def test_extended_arguments_are_folded() -> None:
    decoded = decode(many_names(400))
    assert all(i.opname not in ("EXTENDED_ARG", "CACHE") for i in decoded.instructions)
    assert max(i.arg for i in decoded.instructions if i.opname == "LOAD_CONST") > 255
    last = [i for i in decoded.instructions if i.opname == "LOAD_GLOBAL"][-1]
    assert last.argval == "name_399"
    backward = [i for i in decoded.instructions if i.target is not None and i.target < i.index]
    assert backward
    assert all(decoded.index_at(i.argval) == i.target for i in backward)


def test_offsets_in_prefixes_and_caches_belong_to_the_instruction() -> None:
    code = many_names(400)
    decoded = decode(code)
    owner = 0
    for offset in range(0, len(code.co_code), 2):
        index = decoded.index_at(offset)
        assert index >= owner
        owner = index
    for instruction, following in zip(decoded.instructions, decoded.instructions[1:], strict=False):
        assert decoded.index_at(instruction.offset) == instruction.index
        assert decoded.index_at(following.offset - 2) in (instruction.index, following.index)


def test_offset_past_the_end_is_refused() -> None:
    decoded = decode((lambda: None).__code__)
    with pytest.raises(BytecodeError, match="no instruction at byte offset 1000"):
        decoded.index_at(1000)


def test_specialised_code_decodes_as_before_it_ran() -> None:
    def f(values: list[int]) -> int:
        total = 0
        for value in values:
            total += value * len(values)
        return total

    before = [fields(i) for i in decode(f.__code__).instructions]
    for _ in range(200):
        f([1, 2, 3])
    disassemble._memo.pop(id(f.__code__))
    assert [fields(i) for i in decode(f.__code__).instructions] == before


def test_traced_code_decodes_as_base_instructions() -> None:
    def f(x: int) -> int:
        return x + 1

    before = [fields(i) for i in decode(f.__code__).instructions]
    disassemble._memo.pop(id(f.__code__))
    old = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        f(1)
        after = [fields(i) for i in decode(f.__code__).instructions]
    finally:
        sys.settrace(old)
    assert after == before


def test_null_bit_of_load_global_is_kept_in_arg() -> None:
    code = (lambda: print(print)).__code__
    first, second = [i for i in decode(code).instructions if i.opname == "LOAD_GLOBAL"]
    assert (first.argval, second.argval) == ("print", "print")
    assert first.arg is not None
    assert second.arg is not None
    assert (first.arg & 1, second.arg & 1) == (1, 0)


def test_names_of_cells_and_free_variables_are_resolved() -> None:
    def outer(a: int, b: int) -> Any:
        def inner() -> int:
            return a + len(str(b))

        return inner

    assert variable_names(outer.__code__) == ("a", "b", "inner")
    inner = outer(1, 2).__code__
    assert variable_names(inner) == ("a", "b")
    assert [i.argval for i in decode(inner).instructions if i.opname == "LOAD_DEREF"] == ["a", "b"]


def test_decoding_is_done_once() -> None:
    code = (lambda x: x + 1).__code__
    assert decode(code).instructions is decode(code).instructions


def test_equal_code_objects_are_decoded_apart() -> None:
    def make() -> CodeType:
        return compile("x = 1", "<same>", "exec")

    first, second = make(), make()
    assert first == second
    assert first is not second
    assert decode(first).instructions is not decode(second).instructions
    assert decode(second).code is second


def test_memo_keeps_no_code_object_alive() -> None:
    code = compile("def f(): return [x for x in y]", "<temporary>", "exec")
    key, reference = id(code), weakref.ref(code)
    decode(code)
    assert key in disassemble._memo
    del code
    gc.collect()
    assert reference() is None
    assert key not in disassemble._memo


def test_memo_keeps_no_constant_alive() -> None:
    class Held:
        pass

    held = Held()
    code = (lambda: "to be replaced").__code__
    code = code.replace(co_consts=tuple(held if c == "to be replaced" else c for c in code.co_consts))
    reference = weakref.ref(held)
    assert any(i.argval is held for i in decode(code).instructions)
    del code, held
    gc.collect()
    assert reference() is None


def test_jump_out_of_the_code_is_refused() -> None:
    code = (lambda x: 1 if x else 2).__code__
    at = next(i.offset for i in decode(code).instructions if i.target is not None)
    raw = bytearray(code.co_code)
    raw[at + 1] = 200
    with pytest.raises(BytecodeError, match="jumps out of the code"):
        decode(code.replace(co_code=bytes(raw)))


def test_handler_past_the_end_is_refused() -> None:
    code = (lambda x: x).__code__.replace(co_exceptiontable=bytes([0x80, 1, 63, 0]))
    with pytest.raises(BytecodeError, match="handler past the end"):
        decode(code)
