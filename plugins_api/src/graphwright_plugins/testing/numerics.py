"""Results over dtypes, ranks and layouts: many operations in few graphs."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from graphwright_plugins.protocol import COMPLEX_DTYPES, FLOATING_DTYPES, INTEGER_DTYPES
from graphwright_plugins.resolve import ResolvedBackend

from .base import ConformanceTests, program_ids
from .program import Program, dtypes_of
from .themes import Theme

DTYPES = sorted(FLOATING_DTYPES | INTEGER_DTYPES | COMPLEX_DTYPES, key=str)
RANKS = range(6)


def sample(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Random values that no operation below makes ill-conditioned: no zeros, small integers."""
    if dtype.is_complex:
        return torch.randn(tuple(shape), dtype=dtype) + 2
    if dtype.is_floating_point:
        return (torch.rand(tuple(shape)) + 0.5).to(dtype)
    return torch.randint(0, 2, tuple(shape)).bool() if dtype == torch.bool else _small(shape).to(dtype)


def _small(shape: Sequence[int]) -> torch.Tensor:
    return torch.randint(1, 6, tuple(shape))


def _arithmetic(x: Any, y: Any) -> tuple[Any, ...]:
    return x + y, x * y, x - y, x * 3 - 1, x / y, -x, x.abs()


def _of_bools(x: Any, y: Any) -> tuple[Any, ...]:
    return x & y, x | y, x ^ y, ~x, x == y, x + y, x * y, torch.where(x, x, y), x.any(), x.all(0), x.sum(), x.int()


def _equality(x: Any, y: Any) -> tuple[Any, ...]:
    return x == y, x != y, torch.where(x == y, x, y)


def _order(x: Any, y: Any) -> tuple[Any, ...]:
    return x > y, x <= y, torch.where(x > y, x, y)


def _of_numbers(x: Any, y: Any) -> tuple[Any, ...]:
    return torch.maximum(x, y), x.clamp(1, 3), x.amax(1), x // y, x % y, x.sort(1)[0]


def _of_integers(x: Any, y: Any) -> tuple[Any, ...]:
    return x & y, x ^ y, ~x, x << 1, x >> 1, x.bitwise_or(y), x.float() / 2, x.bool()


def _of_floats(x: Any, y: Any) -> tuple[Any, ...]:
    return x.exp(), x.log(), x.sqrt(), x.tanh(), x.sigmoid(), x.pow(2), x.softmax(-1), x.rsqrt(), x @ y.t(), x.round()


def _of_complex(x: Any, y: Any) -> tuple[Any, ...]:
    return x.real, x.imag, x.conj() * y, x.exp(), x @ y.t(), torch.view_as_real(x)


def _reductions(x: Any, y: Any) -> tuple[Any, ...]:
    return x.sum(), x.sum(0), x.sum(1, keepdim=True), x.prod(0), x.cumsum(1)


def _movement(x: Any, y: Any) -> tuple[Any, ...]:
    return torch.cat([x, y]), torch.stack([x, y], 1), x.flip(0), x.roll(1, 1), x.repeat(1, 2), x.tril()


def _indexing(x: Any, y: Any) -> tuple[Any, ...]:
    index = (x != x).long()
    return x.gather(0, index), x.scatter(1, index, y), x.index_select(0, index[0, :2])


_ALL = frozenset(DTYPES)
_FAMILIES: tuple[tuple[Callable[..., Any], frozenset[torch.dtype]], ...] = (
    (_arithmetic, _ALL - {torch.bool}),
    (_reductions, _ALL),
    (_movement, _ALL),
    (_indexing, _ALL),
    (_equality, _ALL),
    (_order, _ALL - COMPLEX_DTYPES),
    (_of_numbers, _ALL - COMPLEX_DTYPES - {torch.bool}),
    (_of_integers, INTEGER_DTYPES - {torch.bool}),
    (_of_bools, frozenset({torch.bool})),
    (_of_floats, FLOATING_DTYPES),
    (_of_complex, COMPLEX_DTYPES),
)


def _program(dtype: torch.dtype, claimed: frozenset[torch.dtype]) -> Program:
    """What a dtype has, as one program: as far as no dtype occurs in it that isn't claimed."""

    def make() -> Sequence[torch.Tensor]:
        return sample((3, 4), dtype), sample((3, 4), dtype)

    def run(x: Any, y: Any) -> tuple[Any, ...]:
        return tuple(value for function in chosen for value in function(x, y))

    families = [function for function, dtypes in _FAMILIES if dtype in dtypes]
    chosen = [function for function in families if dtypes_of(Program("family", function, make)) <= claimed]
    return Program(str(dtype), run, make)


def _of_each_layout(plain: Any, turned: Any, stepped: Any, expanded: Any, empty: Any) -> tuple[Any, ...]:
    each = [(x + 1, x * x, x.sum(), x.reshape(-1) * 2) for x in (plain, turned, stepped, expanded, empty)]
    return (*(value for values in each for value in values), plain + stepped, plain * expanded, empty.sum(0))


def _of_rank_0(x: Any, y: Any, z: Any, other: Any, empty: Any) -> tuple[Any, ...]:
    return x + y, x.sum(), x.reshape(-1), z.unsqueeze(0) * empty, x * other, torch.stack([x, y, z])


def _layouts(rank: int) -> Callable[[], Sequence[torch.Tensor]]:
    """Tensors of one rank: contiguous, with dimensions turned round, with steps, expanded, without elements."""
    shape = (2, 3, 2, 1, 3)[:rank]

    def make() -> Sequence[torch.Tensor]:
        if rank == 0:
            return [torch.randn(4)[index] for index in range(4)] + [torch.randn(0)]
        turned = torch.randn(tuple(reversed(shape))).permute(*reversed(range(rank)))
        stepped = torch.randn((*shape[:-1], 2 * shape[-1]))[..., ::2]
        expanded = torch.randn((1, *shape[1:])).expand(shape)
        return torch.randn(shape), turned, stepped, expanded, torch.randn((0, *shape[1:]))

    return make


def _broadcast(x: Any, row: Any, column: Any, scalar: Any) -> tuple[Any, ...]:
    return x + row, x * column, row - column, scalar / x, torch.where(row > column, x, scalar), (x + scalar).sum((0, 2))


def _special(x: Any, y: Any) -> tuple[Any, ...]:
    return x + y, x * y, x / y, torch.maximum(x, y), x == y, x.isnan(), x.isinf(), x.sum(), x.clamp(-1, 1), x.relu()


def _special_values() -> Sequence[torch.Tensor]:
    values = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, 3e38, 1.0]
    return torch.tensor(values), torch.tensor(values[::-1])


def _mixed(x: Any, half: Any, whole: Any, flag: Any) -> tuple[Any, ...]:
    return x + half, x * whole, half * whole, whole / 2, whole + flag, flag * 2.5, half + 1, x + True


def _of_mixed_dtypes() -> Sequence[torch.Tensor]:
    x = torch.randn(3)
    return x, x.bfloat16(), torch.arange(3), x > 0


SPECIAL = [
    Program(
        "broadcasting", _broadcast, lambda: (torch.randn(2, 3, 4), torch.randn(4), torch.randn(3, 1), torch.ones(()))
    ),
    Program("special values", _special, _special_values),
    Program("mixed dtypes", _mixed, _of_mixed_dtypes),
    # Whole numbers: their sum is the same in any order.
    Program("large", lambda x: (x.sum(), x.cumsum(0)[-1], x.amax()), lambda: (torch.randn(5000).mul(9).round(),)),
]


class NumericsTests(ConformanceTests):
    """Results equal eager's over dtypes, ranks 0 to 5, layouts, and values that are special."""

    theme = Theme.NUMERICS

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_dtype(self, resolved: ResolvedBackend, dtype: torch.dtype) -> None:
        """Arithmetic, reductions, moving of data, and what the kind of dtype has of its own."""
        self.require_dtype(resolved, dtype)
        self.check(resolved, _program(dtype, resolved.capabilities.dtypes))

    @pytest.mark.parametrize("rank", RANKS)
    def test_rank(self, resolved: ResolvedBackend, rank: int) -> None:
        """Tensors of each rank: contiguous, transposed, with steps, expanded, without elements."""
        function = _of_rank_0 if rank == 0 else _of_each_layout
        self.check(resolved, Program(f"rank {rank}", function, _layouts(rank)))

    @program_ids(SPECIAL)
    def test_special(self, resolved: ResolvedBackend, program: Program) -> None:
        """Broadcasting, infinities and what is no number, dtypes that are promoted."""
        self.check(resolved, program)
