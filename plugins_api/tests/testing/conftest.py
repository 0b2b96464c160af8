"""What sessions inside of a session need."""

import pytest
import torch

from graphwright_plugins import aot_compile, core_decompositions, run_in_eager
from graphwright_plugins.testing import trace


@pytest.fixture(scope="package", autouse=True)
def _torch_imported() -> None:
    """Have torch import what compiling needs: what an inner session imports is forgotten at its end.

    Where torch registers operators at the import, a second import fails, in whatever test comes later.
    """
    graph, x = trace(lambda x: (x.sin(),)), torch.ones(2, requires_grad=True)
    aot_compile(graph, [x], run_in_eager, partition="min_cut", decompositions=core_decompositions())
