"""Programs whose inputs change their sizes from call to call, with how many compiles all the calls together cost.

A program is a function and the arguments of its calls, made anew from a fixed seed for each run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

Calls = Callable[[], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Program:
    """One function, called with several sizes.

    Attributes:
        calls: the argument lists, in order.
        compiles: graphs compiled for all of them, starting from an empty cache.
    """

    fn: Callable[..., Any]
    calls: Calls
    compiles: int

    @property
    def name(self) -> str:
        """The function's name."""
        return self.fn.__name__


PROGRAMS: list[Program] = []


def program(calls: Calls, compiles: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a program."""

    def enter(fn: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append(Program(fn, calls, compiles))
        return fn

    return enter


def batches(*shape: int, sizes: tuple[int, ...] = (2, 3, 4, 5, 6)) -> Calls:
    """One float tensor a call; each size takes the place of -1 in the shape."""

    def make() -> list[tuple[Any, ...]]:
        torch.manual_seed(0)
        return [(torch.randn([n if s == -1 else s for s in shape]),) for n in sizes]

    return make


def each(make: Callable[[int], tuple[Any, ...]], sizes: tuple[int, ...] = (2, 3, 4, 5, 6)) -> Calls:
    """What `make` gives for each size."""

    def calls() -> list[tuple[Any, ...]]:
        torch.manual_seed(0)
        return [make(n) for n in sizes]

    return calls


# ---------------------------------------------------------------- batch


@program(batches(-1, 4), 2)
def pointwise(x):
    return (x * 2 + 1).relu()


_weight = torch.linspace(-1, 1, 12).reshape(3, 4)


@program(batches(-1, 4), 2)
def linear(x):
    return F.linear(x, _weight)


@program(batches(-1, 4), 2)
def flatten_all(x):
    return x.reshape(-1) + x.numel()


@program(batches(-1, 4), 2)
def mean_by_hand(x):
    return x.sum(0) / x.shape[0]


@program(batches(-1, 4), 2)
def variance_by_hand(x):
    n = x.size(0)
    return ((x - x.mean(0)) ** 2).sum(0) / (n - 1)


@program(each(lambda n: (torch.randn(n, 3, 4), torch.randn(n, 4, 5))), 2)
def batched_product(a, b):
    return a @ b


@program(each(lambda n: (torch.randn(n, 4), torch.randn(n, 4))), 2)
def two_of_one_size(a, b):
    return a + b


@program(each(lambda n: (torch.randn(n, 4), torch.randn(2 * n, 4))), 2)
def one_twice_as_long(a, b):
    return b.reshape(a.shape[0], 2, 4).sum(1) + a


@program(each(lambda n: (torch.randn(n, 1), torch.randn(1, n + 1))), 2)
def outer_sum(a, b):
    return a + b


# ---------------------------------------------------------------- sequences


@program(batches(2, -1, 8), 2)
def causal_attention(x):
    scores = x @ x.transpose(1, 2) / math.sqrt(x.shape[-1])
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ x


@program(batches(2, 2, -1, 8), 2)
def fused_attention(x):
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


@program(batches(1, -1, 8), 2)
def heads(x):
    b, t, c = x.shape
    return x.view(b, t, 2, c // 2).transpose(1, 2).reshape(b, 2, t, c // 2).sum(1)


@program(batches(-1, 8), 2)
def rotary(x):
    t, c = x.shape
    angles = torch.arange(t).unsqueeze(1) * torch.arange(c // 2).unsqueeze(0)
    a, b = x[:, : c // 2], x[:, c // 2 :]
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


_table = torch.linspace(-1, 1, 80).reshape(20, 4)


@program(each(lambda n: (torch.arange(n) % 20,)), 2)
def embedding(ids):
    return F.embedding(ids, _table) * math.sqrt(4)


@program(each(lambda n: (torch.arange(2 * n).reshape(2, n) % 20,)), 2)
def embedding_with_positions(ids):
    return F.embedding(ids, _table) + torch.arange(ids.shape[1]).unsqueeze(-1)


@program(batches(-1, 4), 2)
def last_step(x):
    return x[-1], x[x.shape[0] - 1]


@program(batches(-1, 4), 2)
def all_but_first(x):
    return x[1:] - x[:-1]


@program(batches(-1, 4, sizes=(4, 6, 8, 10, 12)), 2)
def halves(x):
    half = x.shape[0] // 2
    return x[:half] * x[half:]


@program(each(lambda n: (torch.randn(4, 2), torch.randn(n, 2)), sizes=(3, 4, 5, 6, 7)), 2)
def growing_cache(new, cache):
    return torch.cat([cache, new])[-4:], cache.shape[0] + new.shape[0]


# ---------------------------------------------------------------- images

_kernel = torch.linspace(-1, 1, 54).reshape(2, 3, 3, 3)


@program(batches(1, 3, -1, -1, sizes=(8, 9, 10, 12)), 2)
def convolution(x):
    return F.conv2d(x, _kernel, padding=1)


@program(batches(1, 3, -1, 8, sizes=(8, 10, 12, 14)), 2)
def strided_convolution(x):
    return F.conv2d(x, _kernel, stride=2)


@program(batches(1, 3, -1, 8, sizes=(8, 10, 12, 14)), 2)
def pooling(x):
    return F.max_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)


@program(batches(1, 2, -1, 4, sizes=(4, 5, 6, 7)), 2)
def upsampling(x):
    return F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), mode="nearest")


@program(batches(1, 3, -1, -1, sizes=(8, 12, 16, 20)), 2)
def patches(x):
    b, c, h, w = x.shape
    return x.reshape(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 1, 3, 5).reshape(b, (h // 4) * (w // 4), c * 16)


@program(batches(1, 3, -1, 6, sizes=(5, 6, 7, 9)), 2)
def pad_to_multiple(x):
    short = -x.shape[2] % 4
    return F.pad(x, (0, 0, 0, short))


# ---------------------------------------------------------------- lists


@program(each(lambda n: ([torch.randn(n + i, 2) for i in range(3)],)), 2)
def ragged(parts):
    return torch.cat(parts), [p.shape[0] for p in parts]


@program(each(lambda n: ([torch.randn(3) for _ in range(n)],), sizes=(2, 3, 2, 3)), 2)
def list_that_grows(parts):
    return torch.stack(parts).sum(0)


@program(each(lambda n: ({"a": torch.randn(n), "b": torch.randn(n)},)), 2)
def dict_of_tensors(parts):
    return sum(part.sum() for part in parts.values()) / len(parts)


@program(batches(-1, 3, sizes=(4, 6, 8, 10)), 2)
def split_in_two(x):
    a, b = x.split(x.shape[0] // 2)
    return a + b


@program(batches(-1, 3, sizes=(4, 6, 8, 10)), 2)
def chunk_in_two(x):
    a, b = x.chunk(2)
    return a * b


@program(batches(3, -1), 2)
def unbind_rows(x):
    a, b, c = x
    return a + b * c


@program(batches(-1, 3), 2)
def stack_twice(x):
    return torch.stack([x, x + 1], 1).flatten(0, 1)


# ---------------------------------------------------------------- numbers


@program(each(lambda n: (torch.ones(8, 2), n)), 2)
def first_n(x, n):
    return x[:n] * n


@program(each(lambda n: (torch.ones(3), n / 2)), 2)
def scale(x, s):
    return x * s + s / 2


@program(each(lambda n: (torch.ones(3), n), sizes=(2, 3, 4, 2, 3)), 3)
def repeat_in_python(x, n):
    for _ in range(n):
        x = x + 1
    return x


@program(each(lambda n: (torch.ones(12), n), sizes=(2, 3, 4, 6)), 2)
def view_by_number(x, n):
    return x.view(n, -1).sum(1)


@program(each(lambda n: (torch.ones(3), n), sizes=(2, 3, 4, 5)), 2)
def new_tensors(x, n):
    return torch.zeros(n, 3) + x, torch.full((n,), 2.0), torch.arange(n)


# ---------------------------------------------------------------- decisions


@program(batches(-1, 2, sizes=(2, 3, 4, 9, 10)), 3)
def branch_on_size(x):
    if x.shape[0] > 5:
        return x + 1
    return x - 1


@program(batches(-1, 2, sizes=(2, 3, 4, 5, 6)), 3)
def even_or_odd(x):
    return x * 2 if x.shape[0] % 2 == 0 else x * 3


@program(batches(-1, 2, sizes=(2, 3, 6, 8)), 2)
def clamp_size(x):
    n = min(x.shape[0], 8)
    return x[:n].sum(0)


@program(batches(-1, 2), 2)
def assert_on_size(x):
    assert x.shape[0] > 1, "too short"
    assert x.dim() == 2
    assert x.shape[1] == 2
    return x.cumsum(0)


@program(batches(-1, 2), 5)
def size_in_text(x):
    return x + 1, f"{x.shape[0]} rows"


# ---------------------------------------------------------------- reductions and edges


@program(batches(-1, -1), 2)
def to_a_scalar(x):
    return x.sum(), x.max(), x.norm()


@program(batches(-1, 3), 2)
def loss(x):
    return F.cross_entropy(x, torch.arange(x.shape[0]) % 3)


@program(batches(-1, 4), 2)
def norms(x):
    return F.layer_norm(x, (4,)), x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


@program(batches(2, -1), 2)
def norm_over_what_varies(x):
    return F.layer_norm(x, x.shape[1:])


@program(batches(-1, 3, sizes=(1, 2, 3, 4)), 2)
def from_one_row(x):
    return x.softmax(0) + x.shape[0]


@program(batches(-1, 3, sizes=(3, 4, 1, 5)), 3)
def one_row_in_between(x):
    return x - x.mean(0, keepdim=True)


@program(batches(-1, 3, sizes=(0, 2, 3, 4)), 2)
def from_nothing(x):
    return torch.cat([x, torch.ones(1, 3)]).sum(0)


@program(batches(-1, 3, sizes=(3, 4, 0, 5)), 3)
def nothing_in_between(x):
    return x.sum(0) * 2


@program(each(lambda n: (torch.randn(n, 4).t(),)), 2)
def transposed_input(x):
    return x.contiguous().view(-1) + x.stride(0)


@program(each(lambda n: (torch.randn(10, 4)[2 : 2 + n],)), 2)
def view_as_input(x):
    return x * 2


@program(each(lambda n: (torch.zeros(n, 3),)), 2)
def written_input(x):
    x[1:].add_(1)
    x.mul_(2)
    return x.sum(0)


@program(batches(-1, 4), 2)
def expanded(x):
    return x.unsqueeze(1).expand(-1, 3, -1).reshape(x.shape[0] * 3, 4)


@program(batches(-1, 4), 2)
def sorted_and_gathered(x):
    order = x.argsort(0)
    return x.gather(0, order), x.topk(2, 0).values
