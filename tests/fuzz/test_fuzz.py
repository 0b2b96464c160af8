"""Random programs do under `graphwright.compile` what they do in eager.

The counts of the slow tests come from the environment: `GRAPHWRIGHT_FUZZ_PLAIN` (2000), `GRAPHWRIGHT_FUZZ_BREAKS`
(5000); `GRAPHWRIGHT_FUZZ_SEED` chooses other programs. A failure shows the smallest program found; `hunt.py` looks for
more.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from gwfuzz.choices import DrawnChoices
from gwfuzz.minimise import minimise
from gwfuzz.program import ProgramGenerator
from gwfuzz.runner import check
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

SEED = int(os.environ.get("GRAPHWRIGHT_FUZZ_SEED", "0"))


def fuzz(count: int, *, breaks: bool, backend: str = "eager") -> None:
    """Run so many programs, and require that they are no trivial ones."""
    tally: Counter[str] = Counter()

    @seed(SEED)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )
    @given(st.data())
    def same_as_eager(data: st.DataObject) -> None:
        source = ProgramGenerator(DrawnChoices(data.draw), breaks=breaks).source()
        report = check(source, backend)
        tally.update(programs=1, with_ops=int(report.ops > 0), calls=report.calls, broken=int(bool(report.breaks)))
        tally.update(raised=report.raised, lost_effects=report.lost_effects)
        tally.update(graphs=report.graphs, left_to_eager=len(report.left_to_eager))
        if report.difference is not None:
            smaller = minimise(source, report.difference, lambda text: check(text, backend).difference, rounds=100)
            raise AssertionError(f"{report.difference}\n{smaller}")

    same_as_eager()
    print(dict(tally))
    assert tally["with_ops"] >= 0.3 * tally["programs"], f"too few programs put operations into a graph: {tally}"
    assert tally["raised"] <= 0.6 * tally["calls"], f"too many calls raise: {tally}"
    assert tally["lost_effects"] <= 1 + 0.02 * tally["programs"], f"too many calls lose effects: {tally}"
    assert tally["left_to_eager"] <= 2 + 0.2 * tally["graphs"], f"too many graphs are left to eager: {tally}"
    assert not breaks or tally["broken"] >= 0.3 * tally["programs"], f"too few programs break graphs: {tally}"


@pytest.mark.e2e
def test_programs() -> None:
    fuzz(24, breaks=False)


@pytest.mark.e2e
def test_programs_with_graph_breaks() -> None:
    fuzz(20, breaks=True)


@pytest.mark.e2e
def test_programs_through_aot_autograd() -> None:
    fuzz(6, breaks=False, backend="aot_eager")


@pytest.mark.slow
def test_many_programs() -> None:
    fuzz(int(os.environ.get("GRAPHWRIGHT_FUZZ_PLAIN", "2000")), breaks=False)


@pytest.mark.slow
def test_many_programs_with_graph_breaks() -> None:
    fuzz(int(os.environ.get("GRAPHWRIGHT_FUZZ_BREAKS", "5000")), breaks=True)


@pytest.mark.slow
def test_many_programs_through_aot_autograd() -> None:
    fuzz(int(os.environ.get("GRAPHWRIGHT_FUZZ_PLAIN", "2000")) // 10, breaks=True, backend="aot_eager")
