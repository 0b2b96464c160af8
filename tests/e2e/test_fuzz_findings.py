"""Programs that the fuzz tests once found to differ from eager, made small; one for each kind of bug."""

from __future__ import annotations

import collections
import contextlib
import copy
import itertools
import typing

import pytest
import torch

import graphwright
from graphwright import config
from graphwright.testing import assert_captures

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def _strict():
    with config.patch(raise_internal_errors=True):
        yield
    graphwright.reset()


@graphwright.disable
def opaque(t):
    return t + 1


class Box:
    def __init__(self, x):
        self.x = x


def test_items_of_a_set_argument_are_guarded():
    def f(x, numbers):
        numbers.discard(4)
        return x + sum(numbers)

    compiled = graphwright.compile(f, backend="eager")
    for numbers in ({1, 4}, {1, 4}, {1, 5}, set()):
        want = sum(numbers - {4})
        assert compiled(torch.zeros(2), numbers).tolist() == [want, want]


def test_missing_method_of_a_dict_subclass():
    def f(x, text):
        return x + collections.Counter(text)["q"]

    assert_captures(f, torch.ones(2), "ab", graphs=None, breaks=None)


def test_missing_method_written_in_python():
    class Table(dict):
        def __missing__(self, key):
            return len(key)

    def f(x):
        return x + Table(a=1)["abc"]

    assert_captures(f, torch.ones(2), graphs=None, breaks=None)


def test_whole_slice_of_a_tuple_is_the_tuple():
    def f(x, pair):
        return pair[::1] is pair, pair + () is pair, () + pair is pair, pair * 1 is pair, x + 1

    assert_captures(f, torch.ones(2), (1, [2]))


def test_views_of_one_storage_are_guarded_by_where_they_start():
    def f(x, y):
        x.add_(1)
        return y * 2

    for backend in ("eager", "aot_eager"):
        compiled = graphwright.compile(f, backend=backend)
        for start in (2, 1, 0, 3):
            ours, theirs = torch.arange(6.0), torch.arange(6.0)
            got, want = compiled(ours[:2], ours[start : start + 2]), f(theirs[:2], theirs[start : start + 2])
            assert torch.equal(got, want), (backend, start)
            assert torch.equal(ours, theirs), (backend, start)


def test_empty_views_share_nothing():
    def f(x, y):
        x.add_(1)
        return y + 1

    compiled = graphwright.compile(f, backend="eager")
    base = torch.zeros(2)
    assert compiled(base, base[2:]).tolist() == []


@pytest.mark.parametrize("first_is_leaf", [False, True])
def test_writing_to_a_leaf_fails_before_any_effect_is_lost(first_is_leaf):
    def f(y, items):
        items.append(1)
        y.add_(1)
        return y * 2

    compiled = graphwright.compile(f, backend="eager")
    for is_leaf in (first_is_leaf, not first_is_leaf):
        y = torch.ones(2, requires_grad=True)
        items = []
        if is_leaf:
            with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
                compiled(y, items)
        else:
            assert compiled(y * 1, items).tolist() == [4.0, 4.0]
        assert items == [1]


def test_writing_to_memory_that_is_partly_read_fails_in_eager():
    def f(x, y, items):
        items.append(1)
        x.add_(y)

    compiled = graphwright.compile(f, backend="eager")
    base, items = torch.ones(6), []
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        compiled(base.view(2, 3), base[1:4], items)
    assert items == [1]


def test_effects_before_an_operation_that_fails_on_real_tensors_only():
    def f(x, items):
        items.append(1)
        return torch.add(x, x, alpha=True)

    compiled, items = graphwright.compile(f, backend="eager"), []
    with pytest.raises(RuntimeError, match="Boolean alpha"):
        compiled(torch.ones(2), items)
    assert items == [1]


def test_context_of_an_exception_raised_in_a_handler():
    def f(x, table):
        y = x + 1
        try:
            table["a"]
        except KeyError:
            y[5] = 1.0
        return y

    compiled = graphwright.compile(f, backend="eager")
    with pytest.raises(IndexError) as caught:
        compiled(torch.ones(2), {})
    assert isinstance(caught.value.__context__, KeyError)


def test_graph_break_in_a_handler_keeps_the_handled_exception():
    def f(x):
        try:
            raise ValueError("first")
        except ValueError:
            if x.sum() > 0:
                raise
        return x

    compiled = graphwright.compile(f, backend="eager")
    with pytest.raises(ValueError, match="first"):
        compiled(torch.ones(2))
    assert compiled(-torch.ones(2)).tolist() == [-1.0, -1.0]


def test_state_set_before_a_break_in_an_inlined_call():
    def f(x, box):
        with torch.no_grad():
            y = opaque(copy.copy(box).x)
        return x * 2, y.requires_grad

    box = Box(torch.ones(2, requires_grad=True))
    assert graphwright.compile(f, backend="eager")(torch.ones(2), box)[1] is False


def test_attribute_missing_on_the_first_turn_of_a_loop_after_a_break():
    def f(x, parts):
        try:
            for part in parts:
                if sum([opaque(t) for t in part]).sum() > 0:
                    continue
            with contextlib.nullcontext():
                return x + 1
        except AttributeError as error:
            return str(error)

    assert_captures(f, torch.ones(2), [[torch.ones(2)], []], graphs=None, breaks=None)
    assert_captures(f, torch.ones(2), [[]], graphs=None, breaks=None)


class Span(collections.namedtuple("Span", "start stop")):
    __slots__ = ()
    step = 2

    @property
    def length(self):
        return self.stop - self.start

    def doubled(self):
        return self.length * 2


def test_class_attributes_of_a_named_tuple_are_guarded(monkeypatch):
    def f(x, span):
        return x + span.length + span.step + span.doubled()

    compiled = graphwright.compile(f, backend="eager")
    span = Span(1, 4)
    assert compiled(torch.zeros(1), span).tolist() == [11.0]
    monkeypatch.setattr(Span, "length", property(lambda self: 1))
    assert compiled(torch.zeros(1), span).tolist() == [5.0]
    monkeypatch.setattr(Span, "step", 5)
    assert compiled(torch.zeros(1), span).tolist() == [8.0]
    monkeypatch.setattr(Span, "doubled", lambda self: 0)
    assert compiled(torch.zeros(1), span).tolist() == [6.0]
    monkeypatch.undo()
    assert compiled(torch.zeros(1), span).tolist() == [11.0]


def test_methods_of_constants_with_containers_as_arguments():
    def f(x, text, table):
        return (
            x + 1,
            text.translate({88: "q"}),
            text.translate(str.maketrans("ab", "cd")),
            text.translate(table),
            (3).from_bytes([1, text.count("a")], "big"),
            b"".join([b"a", bytes([65])]),
        )

    assert_captures(f, torch.ones(2), "aXb", {97: None})


def test_method_of_a_constant_with_an_object_as_argument():
    class Upper:
        def __getitem__(self, code):
            return chr(code).upper()

    def f(x, text):
        return x + 1, text.translate(Upper())

    assert_captures(f, torch.ones(2), "aXb", graphs=None, breaks=None)


def test_typing_constructs_made_inside():
    def f(x):
        number: typing.Optional[int] = 3
        kinds = (typing.Optional[int], typing.Union[int, str], list[int], typing.List[int], typing.Tuple[int, ...])
        return x + number, kinds, typing.cast(typing.Optional[int], 4), typing.get_args(kinds[1])

    assert_captures(f, torch.ones(2))


@pytest.mark.parametrize("start", [True, False, 2])
def test_count_that_starts_at_a_bool(start):
    def f(x, start):
        by_one, by_two = itertools.count(start), itertools.count(start, 2)
        return x + 1, [next(by_one), next(by_one)], [next(by_two), next(by_two)], next(itertools.count(start, True))

    assert_captures(f, torch.ones(2), start)


def test_number_made_from_a_float_that_varies():
    def f(x, number):
        graphwright.graph_break()
        return x * number, int(number), abs(number), +number

    compiled = graphwright.compile(f, backend="eager")
    for number in (0.5, 1.5, -2.25, 7.0):
        assert repr(compiled(torch.ones(2), number)) == repr(f(torch.ones(2), number))


REFUSED = {
    "minus a bool": lambda x: x.sub_(True),
    "minus bools": lambda x: x - torch.tensor([True, False]),
    "bitwise": lambda x: x & x,
    "integers divided by zero": lambda x: x.int() // torch.tensor([1, 0]),
    "remainder of zero": lambda x: x.int() % torch.tensor([1, 0]),
    "power of bools": lambda x: (x > 0) ** (x > 0),
    "bools times floats": lambda x: (x > 0).mul_(x),
}


@pytest.mark.parametrize("operation", REFUSED.values(), ids=REFUSED)
def test_what_kernels_refuse_and_fakes_do_not(operation):
    def caught(x, items):
        x.add_(1)
        items.append(1)
        try:
            y = operation(x)
        except (RuntimeError, ZeroDivisionError) as error:
            return str(error)
        return y

    def escapes(x, items):
        x.add_(1)
        items.append(1)
        y = operation(x)
        items.append(2)
        return y

    for fn in (caught, escapes):
        compiled = graphwright.compile(fn, backend="eager")
        outcomes = []
        for call in (fn, compiled):
            x, items = torch.ones(2), []
            try:
                outcome = call(x, items)
            except (RuntimeError, ZeroDivisionError) as error:
                outcome = repr(error)
            outcomes.append((outcome, x.tolist(), items))
        assert repr(outcomes[0]) == repr(outcomes[1])


def loop_that_resumes_into_itself(x, found):
    turns = 0
    while x.sum() > 0 and turns < 3:
        turns += 1
        for _ in sorted([1, 2], key=lambda i: -i)[:3]:
            try:
                raise ValueError("x")
            except ValueError as error:
                found.append(str(error))
    return x + turns


def loop_left_inside_another(x, found):
    turns = 0
    while x.sum() > 0 and turns < 3:
        turns += 1

        def give(value, default=int(torch.tensor([True, False, True]).sum())):
            return value + default

        for number in sorted([1, 2], key=lambda i: -i)[:3]:
            try:
                raise ValueError("x")
            except ValueError as error:
                found.append(str(error) * give(number))
    return x + turns


@pytest.mark.parametrize("fn", [loop_that_resumes_into_itself, loop_left_inside_another])
def test_loops_with_breaks_at_several_depths(fn):
    # What comes after an eager loop used what had been dropped before it; and the stack inside an inner loop was taken
    # for that of a call before it. Both read variables or stack slots that are empty, which crashes the interpreter.
    compiled = graphwright.compile(fn, backend="eager")
    for sign in (1, -1, 1, 2):
        ours, theirs = [], []
        x = torch.arange(6.0).reshape(2, 3) * sign
        assert torch.equal(compiled(x, ours), fn(x, theirs))
        assert ours == theirs


class Swallows:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        return True


def test_an_operation_that_fails_where_it_is_swallowed():
    def f(x, index, items):
        x.mul_(2)
        items.append(1)
        with Swallows():
            items.append(x[index])
        items.append(2)
        return x + 1

    compiled = graphwright.compile(f, backend="eager")
    for last in (1, 7):
        sides = []
        for call in (f, compiled):
            x, items = torch.ones(3), []
            sides.append(repr((call(x, torch.tensor([0, last]), items), x, items)))
        assert sides[0] == sides[1]
