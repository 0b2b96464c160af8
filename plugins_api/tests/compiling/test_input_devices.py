"""Which inputs are on devices that a backend doesn't list."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import fx

from graphwright_plugins import Capabilities
from graphwright_plugins.compiling.input_devices import inputs_elsewhere
from graphwright_plugins.torch_compat import new_fake_mode

MODE = new_fake_mode()


def fake(device: str, *sizes: int) -> torch.Tensor:
    with MODE:
        return torch.empty(sizes, device=device)


def why(devices: set[str] | None, *inputs: Any) -> str | None:
    graph = fx.symbolic_trace(lambda x, y: (x + 1, y + 1))
    backend: Any = SimpleNamespace(name="mini", capabilities=Capabilities(devices=devices))  # type: ignore[arg-type]
    error = inputs_elsewhere(backend, graph, inputs)
    return None if error is None else error.reason


@pytest.mark.parametrize(
    ("devices", "inputs"),
    [
        (None, (fake("cpu", 2), fake("cuda", 2))),
        ({"cuda"}, (fake("cuda", 2), fake("cuda", 2))),
        ({"cuda"}, (fake("cuda", 2), fake("cpu"))),
        ({"cuda"}, (fake("cuda", 2), 3)),
        ({"cuda"}, (3, 4)),
        ({"cuda"}, (fake("meta", 2), fake("cuda", 2))),
        ({"cuda", "cpu"}, (fake("cuda", 2), fake("cpu", 2))),
    ],
)
def test_what_is_fine(devices: set[str] | None, inputs: tuple[Any, ...]) -> None:
    assert why(devices, *inputs) is None


@pytest.mark.parametrize(
    ("devices", "inputs", "told"),
    [
        ({"cuda"}, (fake("cuda", 2), fake("cpu", 2)), "(y on cpu); backend 'mini' compiles for cuda"),
        ({"cuda"}, (fake("cpu"), fake("cpu")), "(x on cpu, y on cpu); backend 'mini' compiles for cuda"),
        ({"cpu", "npu"}, (fake("cuda", 2), 3), "(x on cuda:0); backend 'mini' compiles for cpu, npu"),
        (set(), (fake("cpu", 2), 3), "(x on cpu); backend 'mini' compiles for no device"),
    ],
)
def test_what_is_elsewhere_is_named(devices: set[str], inputs: tuple[Any, ...], told: str) -> None:
    assert told in str(why(devices, *inputs))
