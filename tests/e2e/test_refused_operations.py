"""Operations that fakes do otherwise than kernels: they are left out of graphs, and fail or work as in eager."""

from __future__ import annotations

import traceback

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

import graphwright
from graphwright import config, events

pytestmark = pytest.mark.e2e
BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(autouse=True)
def _strict():
    with config.patch(raise_internal_errors=True):
        yield
    graphwright.reset()


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("n", torch.zeros(1))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.n.add_(1)
        return self.linear(x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_linear_layer_of_another_dtype_fails_in_its_line(backend):
    seen = []
    for compiles in (False, True):
        model = Counting()
        call = graphwright.compile(model, backend=backend) if compiles else model
        with pytest.raises(RuntimeError, match="dtype") as failure:
            call(torch.ones(2, 3).double())
        frames = [f for f in traceback.extract_tb(failure.value.__traceback__) if f.filename == __file__]
        seen.append((str(failure.value), frames[-1].lineno, model.calls, model.n.item()))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "operation",
    [
        lambda a, b: a @ b,
        torch.mm,
        lambda a, b: torch.mv(a, b[0]),
        lambda a, b: torch.addmm(a, a, b),
        F.linear,
        lambda a, b: F.linear(a, a, bias=b[0]),
        lambda a, b: a.index_copy(0, torch.tensor([0]), b[:1]),
    ],
)
def test_products_of_two_dtypes(operation, backend):
    def program(a, b, items):
        a.add_(1)
        items.append(1)
        return operation(a, b)

    a, b, items = torch.ones(3, 3), torch.ones(3, 3).double(), []
    with pytest.raises(RuntimeError) as wanted:
        program(torch.ones(3, 3), b, [])
    with pytest.raises(RuntimeError) as got:
        graphwright.compile(program, backend=backend)(a, b, items)
    assert str(got.value) == str(wanted.value)
    assert items == [1]
    assert a[0, 0] == 2


def test_products_of_two_dtypes_under_autocast():
    def program(a, b):
        with torch.autocast("cpu", torch.bfloat16):
            return F.linear(a, b)

    a, b = torch.ones(2, 3), torch.ones(3, 3, dtype=torch.bfloat16)
    compiled = graphwright.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(a, b), program(a, b))


def there_and_back(x):
    return torch.quantize_per_tensor(x, 0.1, 1, torch.quint8).dequantize() + 1


def asks(x):
    q = torch.quantize_per_channel(x, torch.tensor([0.1, 0.2]), torch.tensor([0, 0]), 0, torch.qint8)
    return x * 1 if q.is_quantized else x * 100


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [there_and_back, asks])
def test_quantized_tensors(program, backend):
    x = torch.tensor([0.12, 0.97])
    assert torch.equal(graphwright.compile(program, backend=backend)(x), program(x))


class Counts(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_mode_sees_each_call_once(backend):
    def program(x):
        return (x * 2).relu()

    compiled, x = graphwright.compile(program, backend=backend), torch.ones(2)
    for _ in range(2):
        assert torch.equal(compiled(x), x * 2)
        with events.collected(events.FrameSkipped, events.Recompiled) as found, Counts() as mode:
            compiled(x)
        assert mode.seen == ["mul", "relu"]
        assert [type(event) for event in found] == [events.FrameSkipped]
        assert "Counts" in found[0].reason


class Slotted:
    __slots__ = ("missing", "there")


def reads_an_empty_slot(x):
    slotted = Slotted()
    slotted.there = x
    try:
        return slotted.missing
    except AttributeError as error:
        return x + 1, str(error)


def looks_while_sorting(x):
    items, lengths = [3, 1, 2], []

    def key(item):
        lengths.append(len(items))
        return item

    items.sort(key=key)
    return x + 1, items, lengths


def changes_while_sorting(x):
    items = [3, 1, 2]
    try:
        items.sort(key=lambda item: items.append(item) or item)
    except ValueError as error:
        return x + 1, items, str(error)


def fails_while_sorting(x):
    items = [3, 1, 0, 2]
    try:
        items.sort(key=lambda item: 1 // item)
    except ZeroDivisionError:
        return x + 1, items


@pytest.mark.parametrize(
    "program", [reads_an_empty_slot, looks_while_sorting, changes_while_sorting, fails_while_sorting]
)
def test_small_print_of_python(program):
    compiled = graphwright.compile(program, backend="eager", fullgraph=True)
    assert repr(compiled(torch.ones(1))) == repr(program(torch.ones(1)))
