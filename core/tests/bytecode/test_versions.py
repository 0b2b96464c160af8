"""The facts about this Python, and the refusal of any other."""

from __future__ import annotations

import dis
import runpy
import sys

import pytest

from graphwright.bytecode import versions
from graphwright.bytecode.versions import ARG_KINDS, ARG_SHIFTS, CACHES, HAS_ARG, OPMAP, ArgKind


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 15, 0), (4, 0, 0)])
def test_unknown_version_is_refused_at_import(monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int]) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    with pytest.raises(ImportError, match=r"knows the bytecode of Python 3\.11, 3\.12, 3\.13, found Python"):
        runpy.run_path(versions.__file__)


def test_every_instruction_that_takes_an_argument_has_a_kind() -> None:
    for opname, opcode in OPMAP.items():
        assert (ARG_KINDS[opcode] is not ArgKind.NONE) == (opcode in HAS_ARG), opname


def test_every_jump_of_dis_is_a_jump() -> None:
    for opcode in (*dis.hasjrel, *dis.hasjabs):
        if opcode < 256:
            assert ARG_KINDS[opcode] in (ArgKind.JUMP_FORWARD, ArgKind.JUMP_BACKWARD)


def test_caches_cover_calls_and_globals() -> None:
    assert CACHES[OPMAP["CALL"]] > 0
    assert CACHES[OPMAP["LOAD_GLOBAL"]] > 0
    assert CACHES[OPMAP["POP_TOP"]] == 0


def test_low_bit_of_load_global_is_no_part_of_the_name() -> None:
    assert ARG_SHIFTS[OPMAP["LOAD_GLOBAL"]] == 1


def test_binary_operators_are_known_by_symbol() -> None:
    assert versions.BINARY_OPERATORS[0] == "+"
    assert "@=" in versions.BINARY_OPERATORS


def test_conditional_jump_names_exist() -> None:
    for condition in ("TRUE", "FALSE", "NONE", "NOT_NONE"):
        assert versions.conditional_jump(condition, backward=False) in OPMAP
        if versions.HAS_BACKWARD_CONDITIONS:
            assert versions.conditional_jump(condition, backward=True) in OPMAP
