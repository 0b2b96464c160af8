"""Random numbers inside graphs."""

from typing import Any

import torch
from torch.nn import functional

from graphwright_plugins.resolve import ResolvedBackend

from .base import ConformanceTests, call
from .program import Program, compile_program
from .themes import Theme

DROPOUT = Program("dropout", lambda x: (functional.dropout(x, 0.5, training=True),), lambda: (torch.ones(64),))
NOISE = Program("noise", lambda x: (torch.randn_like(x), torch.rand_like(x)), lambda: (torch.ones(16),))


def _draws_for_nothing(x: Any) -> tuple[Any, ...]:
    torch.rand_like(x)
    functional.dropout(x, 0.5, training=True)
    return (x + torch.rand_like(x),)


UNUSED = Program("unused draws", _draws_for_nothing, lambda: (torch.ones(16),))


class RandomTests(ConformanceTests):
    """Draws depend on the seed, and on nothing else."""

    theme = Theme.RANDOM_NUMBERS

    def test_same_seed(self, resolved: ResolvedBackend) -> None:
        """The same seed gives the same draws, another one others."""
        self.require(resolved, "random")
        for program in (DROPOUT, NOISE):
            compiled = compile_program(resolved, program, program.inputs(self.device))
            first, again, other = (self._draw(compiled, program, seed) for seed in (1, 1, 2))
            assert torch.equal(first, again), f"{program.id} differs between two calls after the same seed"
            assert not torch.equal(first, other), f"{program.id} is the same after another seed"

    def test_new_draw_each_call(self, resolved: ResolvedBackend) -> None:
        """Two calls in a row draw anew."""
        self.require(resolved, "random")
        inputs = DROPOUT.inputs(self.device)
        compiled = compile_program(resolved, DROPOUT, inputs)
        assert not torch.equal(call(compiled, inputs)[0], call(compiled, inputs)[0])

    def test_equals_eager(self, resolved: ResolvedBackend) -> None:
        """Draws, and what is drawn after the call, equal eager's."""
        self.require(resolved, "random", "eager_random")
        for program in (DROPOUT, NOISE, UNUSED):
            compiled = compile_program(resolved, program, program.inputs(self.device))
            for seed in (3, 4):
                assert torch.equal(self._draw(compiled, program, seed), self._draw(program.function, program, seed))
                after = torch.rand(4, device=self.device)
                self._draw(compiled, program, seed)
                assert torch.equal(torch.rand(4, device=self.device), after), "the generator is left elsewhere"

    def _draw(self, function: Any, program: Program, seed: int) -> torch.Tensor:
        inputs = program.inputs(self.device)
        torch.manual_seed(seed)
        return torch.cat([output.detach() for output in function(*inputs)])
