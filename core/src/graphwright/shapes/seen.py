"""What sizes and numbers earlier captures of a code object met: what differed once varies from then on."""

from __future__ import annotations

from collections.abc import Sequence


class SeenShapes:
    """The memory of one code object under one cache key, by the name of the source.

    Asking is also telling, and asking the same again in the same capture gives the same answer.
    """

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, int], list[int | None]] = {}
        self._numbers: dict[str, int | float | None] = {}
        self.floats_are_fixed = False

    def fix_floats(self) -> None:
        """Let no float be symbolic from now on: the backend cannot do with such."""
        self.floats_are_fixed = True

    def varying_dims(self, name: str, sizes: Sequence[int]) -> frozenset[int]:
        """The dimensions of a tensor that have had another size before.

        Args:
            name: the source of the tensor; tensors of another rank are another matter.
        """
        known = self._sizes.setdefault((name, len(sizes)), list(sizes))
        for dim, size in enumerate(sizes):
            if known[dim] != size:
                known[dim] = None
        return frozenset(dim for dim, size in enumerate(known) if size is None)

    def varies(self, name: str, value: float) -> bool:
        """Whether a number has had another value before."""
        known = self._numbers.setdefault(name, value)
        if known is not None and (type(known) is not type(value) or known != value):
            known = self._numbers[name] = None
        return known is None
