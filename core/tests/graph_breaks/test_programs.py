"""Each id of the catalogue has a program that breaks its graph for that reason and for no other."""

from __future__ import annotations

import copy

import pytest

import graphwright
from graphwright import graph_breaks as gb
from graphwright.exc import TorchRuntimeError, Unsupported
from graphwright.testing import assert_captures

pytestmark = pytest.mark.usefixtures("precision_as_before")

RAISING = {gb.EXCEPTION_ESCAPES.gw_id: ValueError, gb.TORCH_OP_FAILED.gw_id: RuntimeError}
"""Programs that raise, and what: there `explain` returns nothing."""


@pytest.mark.parametrize("gw_id", gb.CATALOGUE)
def test_program_does_what_eager_does_and_breaks_for_its_reason_alone(gw_id, program):
    assert_captures(program["example"], *program["ARGUMENTS"], graphs=None, breaks=[gw_id], times=1)
    assert_captures(program["example"], *program["ARGUMENTS"], graphs=None, breaks=None, times=3)


@pytest.mark.parametrize("gw_id", [each for each in gb.CATALOGUE if each not in RAISING])
def test_explain_names_id_line_and_remedy(gw_id, program):
    example = program["example"]
    told = graphwright.explain(example)(*copy.deepcopy(program["ARGUMENTS"]))
    assert [reason.gw_id for reason in told.break_reasons] == [gw_id]
    assert told.break_reasons[0].remedy == gb.CATALOGUE[gw_id].remedy
    assert told.break_reasons[0].location.filename == example.__code__.co_filename
    assert "# here" in told.break_reasons[0].location.text
    assert gw_id in str(told)


@pytest.mark.parametrize("gw_id", gb.CATALOGUE)
def test_fullgraph_refuses_with_id_line_and_remedy(gw_id, program):
    kind = gb.CATALOGUE[gw_id]
    compiled = graphwright.compile(program["example"], backend="eager", fullgraph=True)
    if kind is gb.EXCEPTION_ESCAPES:
        with pytest.raises(ValueError, match="two dimensions"):
            compiled(*program["ARGUMENTS"])
        return
    expected = TorchRuntimeError if kind is gb.TORCH_OP_FAILED else Unsupported
    with pytest.raises(expected) as raised:
        compiled(*copy.deepcopy(program["ARGUMENTS"]))
    message = str(raised.value)
    assert gw_id in message
    assert "# here" in message
    assert kind.remedy in message
