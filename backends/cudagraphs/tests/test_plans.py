"""What becomes of inputs and outputs, and which recordings are kept: plain decisions."""

from __future__ import annotations

import math

import pytest
import torch

from graphwright_cudagraphs import CudaGraphsOptions
from graphwright_cudagraphs.inputs import Handling, InputPlan, plan_inputs
from graphwright_cudagraphs.outputs import Cloned, Constant, InputItself, Lent, OutputPlan, ViewOfInput, plan_outputs
from graphwright_cudagraphs.recorder import Tape
from graphwright_cudagraphs.recordings import Recording, Recordings, Step
from graphwright_plugins import GraphKind, GraphSignature, InputKind, InputSignature
from graphwright_plugins.signature import tensor_spec

# ------------------------------------------------------------------ inputs


def input_of(name: str, value: object = None, **facts: object) -> InputSignature:
    tensor = tensor_spec(value) if isinstance(value, torch.Tensor) else None
    kind = InputKind.NUMBER if tensor is None else InputKind.USER_INPUT
    return InputSignature(name, facts.pop("kind", kind), tensor=tensor, **facts)


SIGNATURE = GraphSignature(
    GraphKind.BACKWARD,
    (
        input_of("weight", torch.ones(2), static_address=True),
        input_of("x", torch.ones(2)),
        input_of("n"),
        input_of("host", torch.ones((), device="meta")),
        input_of("unused", torch.ones(2)),
        input_of("hidden", torch.ones(2), kind=InputKind.SAVED, saved_output=3),
    ),
    (),
)


def test_each_input_has_its_handling() -> None:
    plan = plan_inputs(SIGNATURE, [True, True, True, True, False, True], "cpu")
    copied = Handling.COPIED
    first = (Handling.STATIC, copied, Handling.NUMBER, Handling.HOST_NUMBER, Handling.UNUSED)
    assert plan == InputPlan((*first, copied))
    for saved_as in (Handling.LENT, Handling.STATIC, Handling.COPIED):
        assert plan.with_saved(SIGNATURE, {3: saved_as}) == InputPlan((*first, saved_as))
    assert plan.with_saved(SIGNATURE, {}) == plan
    assert plan.with_copies_of(frozenset({0, 2})) == InputPlan((copied, *first[1:], copied))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(0.0, -0.0, False), (1, True, False), (1, 1.0, False), (math.nan, math.nan, True), (3, 3, True), (2, 3, False)],
)
def test_numbers_are_told_apart_as_arguments(one: float, other: float, same: bool) -> None:
    plan = InputPlan([Handling.NUMBER])
    assert (plan.key([one]) == plan.key([other])) is same
    plan = InputPlan([Handling.HOST_NUMBER])
    assert (plan.key([torch.tensor(one)]) == plan.key([torch.tensor(other)])) is same


@pytest.mark.parametrize("handling", Handling)
def test_sizes_and_strides_count_where_they_may_vary(handling: Handling) -> None:
    x = torch.ones(3, 3)
    numbers = torch.ones(3, 3, dtype=torch.complex64)
    others = [x.t(), x[:2], numbers.conj()]
    plan = InputPlan([handling], frozenset({0}))
    if handling in (Handling.COPIED, Handling.STATIC):
        assert plan.key([x]) == plan.key([x + 1]) == plan.key([numbers])
        assert all(plan.key([x]) != plan.key([other]) for other in others)
        assert (InputPlan([handling]).key([x[:2]]) == InputPlan([handling]).key([x])) is (handling is Handling.STATIC)
    if handling is Handling.LENT:
        assert plan.key([x]) == (x.data_ptr(),)
    if handling is Handling.UNUSED:
        assert plan.key([x]) == plan.key([None]) == plan.sizes([x]) == ()
    else:
        assert plan.sizes([x]) == plan.sizes([x + 1]) != plan.sizes([x[:2]])


# ------------------------------------------------------------------ outputs


def test_each_output_has_its_source() -> None:
    x, own = torch.arange(6.0), torch.zeros(4)
    plan = plan_outputs([x, x[2:4], own, own[1:], own, 3, None, x.view(torch.int32)], [x], ())
    assert plan.sources[:2] == [InputItself(0), ViewOfInput(0, (2,), (1,), 2)]
    assert plan.sources[2:7] == [Cloned(0), Cloned(1), Cloned(0), Constant(3), Constant(None)]
    assert isinstance(plan.sources[7], Cloned)  # of another dtype: a view of the argument could not be made alike
    argument = torch.arange(10.0)[4:]
    made = plan.make([argument])
    assert made[0] is argument
    assert made[1].tolist() == [6.0, 7.0]
    assert made[2] is made[4]
    made[2][1] = 5
    assert made[3][0] == 5
    assert own[1] == 0


def test_what_is_lent_is_out_as_long_as_anything_shares_its_memory() -> None:
    own = torch.zeros(4)
    plan = plan_outputs([own, own[1:], own * 2], [], {0, 2})
    address = own.data_ptr()
    del own
    assert [type(source) for source in plan.sources] == [Lent, Cloned, Lent]
    assert not plan.is_out
    first, clone, second = plan.make([])
    assert plan.is_out
    view = second[0].detach()
    del first, second
    assert plan.is_out
    del view
    assert not plan.is_out
    assert clone.untyped_storage().data_ptr() != address


def test_views_and_their_bases_can_be_lent() -> None:
    base = torch.zeros(4, 4)
    view = base.t()[1:]
    plan = plan_outputs([view, view[0]], [], {0})
    del base, view
    assert not plan.is_out
    lent = plan.make([])[0].detach()
    assert lent.stride() == (1, 4)
    assert plan.is_out
    del lent
    assert not plan.is_out


def test_what_is_read_with_marks_is_cloned_rather_than_lent() -> None:
    conjugated = torch.tensor([1j]).conj()
    plan = plan_outputs([conjugated, conjugated.imag], [], {0, 1})
    first, second = plan.make([])
    assert torch.equal(first, conjugated)
    assert torch.equal(second, conjugated.imag)
    assert first.is_conj()
    assert second.is_neg()
    assert not plan.is_out


def test_a_tensor_alive_by_chance_never_hides_one_that_is_lent() -> None:
    own = torch.zeros(4)
    plan = plan_outputs([own], [], {0})
    assert plan.is_out  # `own` is the one by chance
    lent = plan.make([])
    del own
    assert plan.is_out
    del lent
    assert not plan.is_out


def test_outputs_without_elements_are_never_out() -> None:
    empty = torch.zeros(0, 3)
    plan = plan_outputs([empty, torch.zeros(0)], [torch.zeros(0)], {0, 1})
    made = plan.make([torch.zeros(0)])
    assert [tuple(value.shape) for value in made] == [(0, 3), (0,)]
    assert not plan.is_out


# ------------------------------------------------------------------ recordings


def recording() -> Recording:
    return Recording(Tape(None), [], [], OutputPlan(), frozenset())


def test_recordings_are_made_after_the_warm_up_and_up_to_the_limit() -> None:
    table = Recordings(CudaGraphsOptions(warm_up_calls=2, max_recordings=2))
    for key in (("a",), ("b",)):
        for _ in range(2):
            assert table.next_step(key) is Step.WARM_UP
            table.count_warm_up(key)
        assert table.next_step(key) is Step.RECORD
        assert table.make_room() == []
        table.add(key, recording())
    assert table.next_step(("c",)) is Step.RUN_IN_EAGER
    assert table.find(("a",)) is not None
    assert table.find(("c",)) is None


def test_the_one_not_used_for_longest_makes_room() -> None:
    table = Recordings(CudaGraphsOptions(max_recordings=2, when_full="replace"))
    first, second = recording(), recording()
    table.add(("a",), first)
    table.add(("b",), second)
    assert table.find(("a",)) is first
    assert table.next_step(("c",)) is Step.WARM_UP
    assert table.make_room() == [second]
    assert list(table) == [first]
    assert table.take_out(lambda one: one is first) == [first]
    assert len(table) == 0


def test_sizes_that_come_once_are_forgotten() -> None:
    table = Recordings(CudaGraphsOptions(max_recordings=1))
    for number in range(100):
        table.count_warm_up((number,))
    assert table.next_step((99,)) is Step.RECORD
    assert table.next_step((0,)) is Step.WARM_UP
