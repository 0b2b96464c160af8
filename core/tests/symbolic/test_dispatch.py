"""The opcode table."""

import pytest

from graphwright.symbolic.dispatch import OpcodeTable


def handler(tx, inst):
    pass


def test_versions_bound_a_registration():
    table = OpcodeTable((3, 12), {"A": 1, "B": 2})
    table.register("A", handler, (3, 11), None)
    table.register("B", handler, (3, 13), None)
    table.register("B", handler, (3, 11), (3, 12))
    assert table.handlers[1] is handler
    assert table.handlers[2] is None


def test_unknown_name_in_range_is_refused():
    table = OpcodeTable((3, 12), {"A": 1})
    table.register("GONE", handler, (3, 11), (3, 12))
    with pytest.raises(ValueError, match=r"'MISSPELT'.*no such opcode"):
        table.register("MISSPELT", handler, (3, 11), None)


def test_second_handler_is_refused():
    table = OpcodeTable((3, 12), {"A": 1})
    table.register("A", handler, (3, 11), None)
    with pytest.raises(ValueError, match="two handlers"):
        table.register("A", handler, (3, 12), None)


def test_refused_opcodes_of_other_versions_are_passed_over():
    table = OpcodeTable((3, 12), {"A": 1})
    table.refuse("B", "not here")
    table.refuse("A", "because")
    assert table.unsupported == {"A": "because"}
    assert table.handlers[1] is not None
