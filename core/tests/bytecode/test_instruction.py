"""Control flow of decoded code."""

from __future__ import annotations

from graphwright.bytecode import DecodedCode, decode


def loop(values: list[int]) -> int:
    total = 0
    for value in values:
        if value < 0:
            raise ValueError(value)
        total += value
    return total


def guarded(call: object) -> int:
    try:
        return int(call)  # type: ignore[call-overload, no-any-return]
    except ValueError:
        return -1


def index_of(decoded: DecodedCode, opname: str) -> int:
    return next(i.index for i in decoded.instructions if i.opname == opname)


def test_plain_instruction_is_followed_by_the_next() -> None:
    decoded = decode(loop.__code__)
    index = index_of(decoded, "STORE_FAST")
    assert decoded.successors(index) == (index + 1,)


def test_conditional_jump_has_two_successors() -> None:
    decoded = decode(loop.__code__)
    index = index_of(decoded, "FOR_ITER")
    assert decoded.successors(index) == (index + 1, decoded.instructions[index].target)


def test_leaving_instructions_have_no_successor() -> None:
    decoded = decode(loop.__code__)
    assert decoded.successors(index_of(decoded, "RAISE_VARARGS")) == ()
    assert decoded.successors(index_of(decoded, "RETURN_VALUE")) == ()


def test_backward_jump_has_only_its_target() -> None:
    decoded = decode(loop.__code__)
    index = index_of(decoded, "JUMP_BACKWARD")
    assert decoded.successors(index) == (index_of(decoded, "FOR_ITER"),)


def test_handlers_are_reachable() -> None:
    decoded = decode(guarded.__code__)
    reachable = decoded.reachable_from(0)
    assert index_of(decoded, "PUSH_EXC_INFO") in reachable
    call = index_of(decoded, "CALL")
    handler = decoded.handler_for(call)
    assert handler is not None
    assert decoded.instructions[handler.target].opname == "PUSH_EXC_INFO"
    assert decoded.handler_for(0) is None


def test_nothing_before_a_start_is_reachable_without_a_loop() -> None:
    decoded = decode(guarded.__code__)
    start = index_of(decoded, "PUSH_EXC_INFO")
    assert min(decoded.reachable_from(start)) == start


def test_repr_names_what_matters() -> None:
    decoded = decode(loop.__code__)
    assert repr(decoded) == f"<DecodedCode loop of {len(decoded)} instructions>"
    assert "FOR_ITER" in repr(decoded.instructions[index_of(decoded, "FOR_ITER")])
