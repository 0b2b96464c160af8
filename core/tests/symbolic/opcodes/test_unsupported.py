"""Every opcode of this Python is handled or refused with a reason."""

import dis

from graphwright import graph_breaks as gb
from graphwright.symbolic.dispatch import TABLE
from graphwright.symbolic.opcodes.unsupported import UNSUPPORTED

FOLDED = {"CACHE", "EXTENDED_ARG"}
"""Decoding leaves these out."""


def real_opcodes():
    return {n for n, o in dis.opmap.items() if o < 256 and not n.startswith("INSTRUMENTED_")} - FOLDED


def test_complete():
    handled = {n for n in real_opcodes() if TABLE.handlers[dis.opmap[n]] is not None}
    assert handled == real_opcodes()


def test_reasons_are_given():
    assert set(TABLE.unsupported) <= set(UNSUPPORTED)
    assert all(reason.strip() for reason in UNSUPPORTED.values())


def test_handlers_describe_the_stack():
    for name in real_opcodes() - set(UNSUPPORTED):
        handler = TABLE.handlers[dis.opmap[name]]
        assert "Stack: (" in (handler.__doc__ or ""), name


def test_reason_is_in_the_break(breaks):
    def f():
        try:
            raise ValueError
        except* ValueError:
            pass

    signal = breaks(gb.UNSUPPORTED_OPCODE, f)
    assert "CHECK_EG_MATCH" in signal.detail
    assert "exception groups" in signal.detail
