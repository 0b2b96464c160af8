"""What is known of backends for torch.compile that come from elsewhere, which can't declare it themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import torch

from graphwright_plugins.form.graph_form import GraphForm
from graphwright_plugins.protocol import Capabilities, Tolerance


@dataclass(frozen=True)
class Nature:
    """What a backend can do, and the graphs that it does right."""

    capabilities: Capabilities
    """Its abilities."""
    graph_form: GraphForm
    """The form in which it gets its graphs."""
    traces_alone: bool = False
    """Whether it traces the graph by itself, with fakes of its own, which the tracing context would disturb."""
    reuses_results: bool = False
    """Whether a later call writes to the tensors that an earlier one returned, so that they have to be copied."""


UNKNOWN: Final = Nature(Capabilities(), GraphForm())
"""Taken to be able to do what eager does, on graphs as they were captured: as under torch.compile."""

_OPENVINO_DTYPES: Final = frozenset({torch.float16, torch.float32, torch.float64, torch.int64, torch.bool})

KNOWN_TORCH_BACKENDS: Final[Mapping[str, Nature]] = MappingProxyType(
    {
        # Tried with OpenVINO 2026.4. Left to itself it forgets gradients and changes of inputs, returns copies for
        # views, computes some graphs for the sizes of the first call, and writes its next results over its last. Sums
        # of small integers come out wrong, those of int32 in another dtype. In a tracing context it makes symbols of
        # all sizes, which takes minutes for a convolution.
        "openvino": Nature(
            Capabilities(
                devices=frozenset({"cpu"}),
                dtypes=_OPENVINO_DTYPES,
                training=False,
                dynamic_shapes=False,
                eager_random=False,
                strides=False,
                tolerances={torch.float32: Tolerance(1e-4, 1e-4), torch.float16: Tolerance(1e-2, 1e-2)},
            ),
            GraphForm(
                level="aten", sizes="fixed", aliasing=False, literals=False, contiguous=True, dtypes=_OPENVINO_DTYPES
            ),
            traces_alone=True,
            reuses_results=True,
        ),
    }
)
"""By the name under which torch.compile finds them."""
