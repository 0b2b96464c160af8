"""Which functions written in C have a Python stand-in that is inlined when they are called."""

from __future__ import annotations

import bisect
import collections
import functools
import heapq
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

from graphwright.builtin_calls import polyfill_functions as python
from graphwright.builtin_calls.registry import handles
from graphwright.variables.base import Kwargs, Tx, VariableTracker

VTs = list[VariableTracker]

POLYFILLS: dict[Any, Callable[..., Any]] = {
    itertools.accumulate: python.accumulate,
    itertools.compress: python.compress,
    itertools.dropwhile: python.dropwhile,
    itertools.takewhile: python.takewhile,
    itertools.starmap: python.starmap,
    itertools.pairwise: python.pairwise,
    itertools.zip_longest: python.zip_longest,
    itertools.groupby: python.groupby,
    itertools.tee: python.tee,
    functools.reduce: python.reduce,
    functools.cmp_to_key: python.cmp_to_key,
    operator.countOf: python.count_of,
    operator.indexOf: python.index_of,
    math.prod: python.product_of,
    heapq.heappush: python.heappush,
    heapq.heappop: python.heappop,
    heapq.heapreplace: python.heapreplace,
    heapq.heappushpop: python.heappushpop,
    heapq.heapify: python.heapify,
    bisect.bisect_left: python.bisect_left,
    bisect.bisect_right: python.bisect_right,
    bisect.insort_left: python.insort_left,
    bisect.insort_right: python.insort_right,
}
"""Python stand-ins by C function."""

# Names that only some Python versions have.
_OPTIONAL: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (itertools, "batched", python.batched),
    (collections, "_count_elements", python.count_elements),
    (heapq, "_heappop_max", python.heappop_max),
    (heapq, "_heapreplace_max", python.heapreplace_max),
    (heapq, "_heapify_max", python.heapify_max),
)
POLYFILLS.update((getattr(module, name), fn) for module, name, fn in _OPTIONAL if hasattr(module, name))


def register_polyfill(function: Any, stand_in: Callable[..., Any]) -> None:
    """Let calls of a function be translated as calls of a Python function."""

    @handles(function)
    def call(tx: Tx, args: VTs, kwargs: Kwargs) -> VariableTracker:
        return tx.call(tx.wrap(stand_in), args, kwargs)


for _function, _stand_in in POLYFILLS.items():
    register_polyfill(_function, _stand_in)
