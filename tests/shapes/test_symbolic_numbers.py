"""Everything Python does with numbers that vary gives what eager gives, on backends with and without AOTAutograd."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import graphwright
from graphwright import events
from graphwright.likeness import Likeness

SIZES = (2, 3, 4, 5, 6)


@pytest.fixture(autouse=True)
def _empty_cache():
    graphwright.reset()


class Record:
    def __init__(self) -> None:
        self.n: Any = 0
        self.items: list[Any] = []
        self.table: dict[Any, Any] = {}


def difference(fn: Callable[..., Any], calls: Callable[[], list[tuple[Any, ...]]], backend: str, **options: Any) -> Any:
    compiled = graphwright.compile(fn, backend=backend, **options)
    tolerance = 0.0 if backend == "eager" else 1e-5
    for ours, theirs in zip(calls(), calls(), strict=True):
        torch.manual_seed(3)
        got = compiled(*ours)
        torch.manual_seed(3)
        want = fn(*theirs)
        found = Likeness(rtol=tolerance, atol=tolerance).difference((got, ours), (want, theirs), fn.__name__)
        if found is not None:
            return found
    return None


def rows() -> list[tuple[Any, ...]]:
    torch.manual_seed(0)
    return [(torch.randn(n, 3),) for n in SIZES]


def list_index_and_dict_key(x):
    n = x.shape[0]
    return x + [1, 2, 3, 4, 5, 6, 7, 8][n - 1], {n: 1}


def arithmetic(x):
    n = x.shape[0]
    return [-n, +n, ~n, n & 3, n << 1, n**2, 2**n, n / 2, 7 // n, n % 3, divmod(n, 2), abs(-n), round(n), n - 10 * n]


def conversions(x):
    n = x.shape[0]
    text = [str(n), repr(n), f"{n:03d}", "%d" % n]
    return text, [int(n), float(n), bool(n), complex(n), hash(n), math.sqrt(n), n**-0.5]


def comparisons(x):
    n = x.shape[0]
    return [n is None, isinstance(n, int), type(n) is int, n == x.shape[0], n in x.shape, x.shape[1:] == (3,), n < 4]


def containers(x):
    s = x.shape
    return [tuple(s), list(s)[::-1], s.numel(), max(s), min(s), sum(s), sorted(s), (-1, *s[1:]), s + (1,), (0,) + s]


def comprehensions(x, k=3):
    take = lambda t: t[:k] * x.shape[0]  # noqa: E731
    return take(x), [q for q in x.shape], {s: s for s in x.shape}, tuple(s + 1 for s in x.shape), *x.shape


def loop_over_rows(x):
    out = [x[i] * i for i in range(x.shape[0])]
    return torch.stack(out), len(out)


def factories(x):
    n = x.shape[0]
    return [
        x.new_zeros(n), x.new_full((n, 2), n), torch.ones_like(x) * n, torch.linspace(0, 1, n), torch.eye(n),
        torch.randperm(n), torch.arange(n - 1, -1, -1), torch.empty(n, n).shape, torch.rand(n, 2), torch.tensor([n]),
    ]  # fmt: skip


def views(x):
    n = x.shape[0]
    return x[:, None].repeat(1, n, 1).tril(), x.split([1, n - 1]), x.chunk(n), x.unbind()[-1], x.expand(2, *x.shape)


def facts_of_tensors(x):
    y = x.clone()
    return [y.size(), y.numel(), y.stride(), len(y), y.T.shape, y.nbytes, y.dim()]


def writes_to_parts(x, n=2):
    y = x.clone()
    y[:n] += 1
    y[1:] *= 2
    y[x.shape[0] - 1] -= 1
    y[..., 1] += 3
    y[y > 0] = 0.5
    y[[0, 1]] += 1
    y[:, None] = y[:, None] * 2
    y[0] = y[1]
    y.t()[0] += 1
    return y


def decisions(x):
    n = x.shape[0]
    if n % 2 and n > 2:
        x = x + 1
    elif not n <= 2:
        x = x + 2
    while n > 3:
        n -= 2
        x = x * 2
    return x if n else -x


def division_by_zero(x):
    try:
        return x.view(x.shape[0] // 0)
    except ZeroDivisionError as error:
        return str(error)


def functional(x):
    wide = x[None, None]
    return [
        F.pad(x, (0, x.shape[0], 1, 0)), F.softmax(x, x.dim() - 1), F.interpolate(wide, scale_factor=2.0),
        F.avg_pool1d(x[None], 2), F.unfold(wide, (2, 2)), F.layer_norm(x, x.shape[1:]), F.dropout(x, 0.5),
    ]  # fmt: skip


PROGRAMS = (
    list_index_and_dict_key, arithmetic, conversions, comparisons, containers, comprehensions, loop_over_rows,
    factories, views, facts_of_tensors, writes_to_parts, decisions, division_by_zero, functional,
)  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("dynamic", [None, True])
def test_numbers_from_shapes(fn, backend, dynamic):
    assert difference(fn, rows, backend, dynamic=dynamic) is None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_indices_that_vary(backend):
    def fn(x, n, m):
        return x[n], x[n, :, m], x[..., n], x[1, n], x[None, n, ..., m], x[-1, :, n, None], x[:, n : m + 2], x[0][m]

    def calls():
        torch.manual_seed(0)
        return [(torch.randn(9, 8, 7), n, m) for n, m in ((2, 3), (3, 2), (4, 1), (5, 4))]

    assert difference(fn, calls, backend) is None


def test_stored_numbers_are_plain():
    def fn(x, record):
        record.n = x.shape[0]
        record.items.append(x.shape[0] * 2)
        record.table["k"] = (x.shape[0], {1: x.shape})
        return x + 1, record.n

    def calls():
        return [(torch.ones(n, 3), Record()) for n in SIZES]

    assert difference(fn, calls, "eager") is None
    record = Record()
    graphwright.compile(fn, backend="eager", dynamic=True)(torch.ones(4, 3), record)
    assert type(record.n) is int
    assert type(record.items[0]) is int
    assert type(record.table["k"][1][1]) is torch.Size


def floats(x, s):
    return x * s + s / 2, s * 3.0 - 1, math.isinf(s) or int(s), -s, s < 1.0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_floats_that_vary(backend):
    def calls():
        return [(torch.ones(3), s) for s in (0.5, 0.7, 1.5, 2.5, 1.0, 0.0, float("inf"), 2.5)]

    assert difference(floats, calls, backend) is None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_float_that_varies_compiles_twice(backend):
    def fn(x, s):
        return x * s + s / 2

    compiled = graphwright.compile(fn, backend=backend)
    with graphwright.events.collected(graphwright.events.GraphCompiled) as found:
        for s in (0.5, 0.7, 1.5, 2.5):
            assert torch.equal(compiled(torch.ones(2), s), fn(torch.ones(2), s))
    assert len(found) == 2


# ---------------------------------------------------------------- known only to the graph


def in_several_steps(x, s):
    """What the rules of real numbers would simplify, and floats do not."""
    return x * ((s + 1e16) - 1e16), x * (1 - (1 - s)), x * (s - s), x * (s * 0.0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("fn", [in_several_steps, lambda x, s: (x * s, x / s, x.mul_(s))])
def test_floats_keep_their_precision(fn, dtype, backend):
    def calls():
        return [(torch.ones(2, dtype=dtype), s) for s in (0.7, 0.3, 1.1, 3e-17, float("inf"), -2.5)]

    compiled = graphwright.compile(fn, backend=backend)
    for (x, s), (y, _) in zip(calls(), calls(), strict=True):
        for got, want in zip(compiled(x, s), fn(y, s), strict=True):
            assert torch.equal(got.nan_to_num(nan=77.0), want.nan_to_num(nan=77.0)), s


def values_of_constants(x, s):
    """Tensors whose values capture knows, computed with numbers that it does not."""
    two = torch.tensor(2)
    half = two * (s * 0.5)
    kept = torch.tensor([1.0, 2.0])
    seen = kept[0]
    kept.mul_(s + 0.5)
    return x + 1, half.item(), bool(half > 1.5), (two + s).tolist(), seen.item(), kept.sum().item(), float(two)


def made_of_numbers(x, s):
    """Tensors made of numbers that vary: dtypes, shapes, and nesting."""
    return (
        torch.tensor([2, s]),
        torch.tensor(s),
        torch.tensor([[s, 1.5], [0, -s]]),
        torch.tensor([s], dtype=torch.float64),
        torch.tensor([True, s]),
        torch.as_tensor([s, s + 1]),
        torch.tensor(s, dtype=torch.bool),
        x * torch.tensor([s * 0.25]),
        torch.tensor([1.0 * s], requires_grad=True) * x,
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [values_of_constants, made_of_numbers], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("numbers", [(2, 3, 5, 4, 6), (2.0, 3.5, 5.0, -4.0, 0.5)], ids=["ints", "floats"])
def test_constants_and_numbers_that_vary(fn, backend, numbers):
    assert difference(fn, lambda: [(torch.ones(2), n) for n in numbers], backend) is None


@pytest.mark.parametrize("kind", [int, float])
def test_a_tensor_made_of_numbers_compiles_twice(kind):
    @graphwright.compile(backend=lambda graph, examples: graphs.append(graph) or graph)
    def fn(x, s):
        return x * torch.tensor([s, 1])

    graphs = []
    for n in (2, 3, 4, 5, 6):
        assert fn(torch.ones(2), kind(n)).tolist() == [n, 1]
    assert len(graphs) == 2


def test_a_tensor_made_of_numbers_is_no_view():
    compiled = graphwright.compile(lambda n: (torch.tensor(n), torch.tensor([n]), torch.tensor([[n, 1]])), dynamic=True)
    for n in (3, 4):
        for made in compiled(n):
            assert not made._is_view()
            assert made.detach_().tolist() in (n, [n], [[n, 1]])


def item_in_arithmetic(x):
    n = x.sum().long().item()
    return x + n, n * 2, n


def float_item(x):
    n = x.sum().item()
    return x + n * 2, n


def nonzero(x):
    return x.nonzero() * 2, x[x > 0].sum()


def mask(x):
    y = x[x > 0]
    return y.view(-1, 1) * y.shape[0], y.shape[0]


def checked_slice(x):
    n = (x > 0).sum().item()
    torch._check(n >= 0)
    torch._check(n <= x.shape[0])
    return x[:n] * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "fn", [item_in_arithmetic, float_item, nonzero, mask, checked_slice], ids=lambda fn: fn.__name__
)
def test_values_only_the_graph_knows(fn, backend):
    def calls():
        torch.manual_seed(0)
        return [(torch.randn(10),) for _ in range(4)]

    with (
        graphwright.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True),
        graphwright.events.collected(graphwright.events.GraphCompiled) as found,
    ):
        assert difference(fn, calls, backend, fullgraph=True) is None
    assert len(found) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_check_that_fails_raises_as_eager(backend):
    def fn(x, i):
        n = i.item()
        torch._check(n <= 3, lambda: f"{n} is too much")
        return x[:3] * 2

    with graphwright.config.patch(capture_scalar_outputs=True):
        compiled = graphwright.compile(fn, backend=backend)
        assert torch.equal(compiled(torch.ones(4), torch.tensor(2)), fn(torch.ones(4), torch.tensor(2)))
        with pytest.raises(RuntimeError, match="5 is too much"):
            compiled(torch.ones(4), torch.tensor(5))


# ---------------------------------------------------------------- marks


def doubled(x):
    return x * 2 + x.shape[0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_unbacked_size_serves_zero_and_one_too(backend):
    def calls():
        found = [(torch.ones(n, 3),) for n in (1, 2, 3, 0)]
        for (x,) in found:
            graphwright.mark_unbacked(x, 0)
        return found

    with graphwright.events.collected(graphwright.events.GraphCompiled) as compiled:
        assert difference(doubled, calls, backend) is None
    assert len(compiled) == 1


@pytest.mark.parametrize("mark", [graphwright.mark_dynamic, torch._dynamo.mark_dynamic])
def test_a_marked_size_is_dynamic_at_once(mark):
    def calls():
        found = [(torch.ones(n, 3),) for n in (2, 3, 4)]
        for (x,) in found:
            mark(x, 0)
        return found

    with graphwright.events.collected(graphwright.events.GraphCompiled) as compiled:
        assert difference(doubled, calls, "eager", dynamic=False) is None
    assert len(compiled) == 1


def test_a_range_is_a_guard():
    def sized(n):
        x = torch.ones(n, 3)
        graphwright.mark_dynamic(x, 0, min=2, max=8)
        return x

    compiled = graphwright.compile(doubled, backend="eager")
    with graphwright.events.collected(graphwright.events.GraphCompiled) as found:
        for n in (2, 8, 5):
            compiled(sized(n))
        assert len(found) == 1
        with pytest.raises(Exception, match="9"):
            compiled(sized(9))


@pytest.mark.parametrize("fix", [lambda x: x.reshape(4, 3), lambda x: [x + i for i in range(x.shape[0])]])
def test_a_marked_size_may_not_be_fixed(fix):
    def fn(x):
        y = x + 1
        return fix(y)

    x = torch.ones(4, 3)
    graphwright.mark_dynamic(x, 0)
    where = r"(?s)x'?\]?\.size\(0\).*holds it to 4.*test_symbolic_numbers"
    with pytest.raises(graphwright.exc.DynamicSizeFixed, match=where):
        graphwright.compile(fn, backend="eager")(x)
    graphwright.maybe_mark_dynamic(y := torch.ones(4, 3), 0)
    compiled = graphwright.compile(fn, backend="eager")(y)
    assert len(compiled) == len(fn(y))


def test_a_marked_size_of_one_is_refused():
    x = torch.ones(1, 3)
    graphwright.mark_dynamic(x, 0)
    with pytest.raises(graphwright.exc.DynamicSizeFixed, match="mark_unbacked"):
        graphwright.compile(doubled, backend="eager")(x)


def test_a_static_size_stays_static():
    compiled = graphwright.compile(doubled, backend="eager")
    with graphwright.events.collected(graphwright.events.GraphCompiled) as found:
        for n in (2, 3, 4):
            x = torch.ones(n, 3)
            graphwright.mark_static(x, 0)
            assert torch.equal(compiled(x), doubled(x))
    assert len(found) == 3


@pytest.mark.parametrize("dynamic", [None, True])
def test_ints_beyond_64_bits_are_constants(dynamic: bool | None) -> None:
    def fn(x: torch.Tensor, n: int) -> tuple[Any, ...]:
        return x + 1, n * 2, n + n > 7, hash(n)

    def calls() -> list[tuple[Any, ...]]:
        return [(torch.ones(2), n) for n in (3, 5, 9, 2**70, -(2**63), 2**63, 2**62, -(2**62), 2**62 - 1, 11)]

    with events.collected() as found:
        assert difference(fn, calls, "eager", dynamic=dynamic) is None
    assert not [event for event in found if isinstance(event, events.InternalErrorCaught)]
