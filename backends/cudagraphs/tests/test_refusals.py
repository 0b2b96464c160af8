"""Why graphs are not recorded: each rule on a small graph of operators, its values on fakes of a device not there."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch import fx

from graphwright_cudagraphs.operators import is_view
from graphwright_cudagraphs.refusals import Refusal, is_worth_recording, look_at, why_not_recordable
from graphwright_plugins import signature_of
from graphwright_plugins.torch_compat import new_fake_mode

aten = torch.ops.aten


class Builder:
    """Builds a graph of operators with values noted."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.mode = new_fake_mode()
        self.constants = torch.nn.Module()

    def tensor(self, *size: int, device: str = "cuda", **facts: Any) -> torch.Tensor:
        with self.mode:
            return torch.empty(size, device=device, **facts)

    def input(self, name: str, value: Any) -> fx.Node:
        node = self.graph.placeholder(name)
        node.meta["val"] = value
        return node

    def call(self, target: Any, *args: Any, val: Any, **kwargs: Any) -> fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        node.meta["val"] = val
        return node

    def constant(self, name: str, value: Any) -> fx.Node:
        setattr(self.constants, name, value)
        return self.graph.get_attr(name)

    def looked_at(self, *outputs: Any) -> Any:
        self.graph.output(outputs)
        module = fx.GraphModule(self.constants, self.graph)
        return look_at(module, signature_of(module), "cuda")

    def refusal(self, *outputs: Any) -> Refusal | None:
        return why_not_recordable(self.looked_at(*outputs))


@pytest.fixture
def build() -> Builder:
    return Builder()


def refused(refusal: Refusal | None, node: str, reason: str) -> None:
    assert refusal is not None
    assert node in refusal.node
    assert reason in refusal.reason
    assert refusal.remedy.endswith(".")


def test_arithmetic_on_the_device_is_fine(build: Builder) -> None:
    x = build.input("x", build.tensor(3))
    total = build.call(aten.add.Tensor, x, 1, val=build.tensor(3))
    graph = build.looked_at(total)
    assert why_not_recordable(graph) is None
    assert is_worth_recording(graph)
    assert graph.devices == [torch.device("cuda:0")]


@pytest.mark.parametrize(
    ("target", "args", "reason"),
    [
        (aten.nonzero.default, (), "size depends on values"),
        (aten.unique_dim.default, (0,), "size depends on values"),
        (aten._local_scalar_dense.default, (), "waits for it"),
        (aten.equal.default, (), "waits for it"),
        (aten._linalg_check_errors.default, ("inv",), "waits for it"),
        (aten.linalg_cholesky_ex.default, (False, True), "waits for it"),
        (torch.add, (1,), "Python function"),
        (torch.ops.higher_order.cond, (), "higher order operator 'cond'"),
        (torch.ops.higher_order.with_effects, (aten.sin.default,), "effects outside of the graph"),
    ],
)
def test_operators_that_wait_or_choose_are_refused(build: Builder, target: Any, args: Any, reason: str) -> None:
    x = build.input("x", build.tensor(3))
    refused(build.refusal(build.call(target, x, *args, val=build.tensor(3))), str(target), reason)


def test_a_mark_of_the_operators_authors_is_kept(build: Builder) -> None:
    with torch.library._scoped_library("graphwright_test", "FRAGMENT") as library:
        library.define("unsafe(Tensor x) -> Tensor", tags=[torch.Tag.cudagraph_unsafe])
        x = build.input("x", build.tensor(3))
        node = build.call(torch.ops.graphwright_test.unsafe.default, x, val=build.tensor(3))
        refused(build.refusal(node), "graphwright_test.unsafe", "cudagraph_unsafe")


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8])
@pytest.mark.parametrize("writes", [False, True])
def test_truth_values_as_index_are_refused_and_numbers_are_not(
    build: Builder, dtype: torch.dtype, writes: bool
) -> None:
    x = build.input("x", build.tensor(3))
    index = build.input("index", build.tensor(3, dtype=torch.int64))
    mask = build.input("mask", build.tensor(3, dtype=dtype))
    target = aten.index_put.default if writes else aten.index.Tensor
    rest = (x,) if writes else ()
    build.call(target, x, [index], *rest, val=build.tensor(3))
    refused(build.refusal(build.call(target, x, [mask], *rest, val=build.tensor(3))), "index", "truth values of mask")


def test_a_size_known_only_when_it_runs_is_refused(build: Builder) -> None:
    size = build.mode.shape_env.create_unbacked_symint()
    value = build.tensor(size)
    x = build.input("x", build.tensor(3))
    refused(build.refusal(build.call(aten.sin.default, x, val=[value])), "sin", "size depends on values")


def test_random_numbers_are_fine_unless_from_another_generator(build: Builder) -> None:
    x = build.input("x", build.tensor(3))
    own = build.call(aten.bernoulli.default, x, val=build.tensor(3))
    assert build.refusal(own) is None
    build = Builder()
    generator = build.constant("generator", torch.Generator())
    other = build.call(aten.rand.generator, [3], generator=generator, val=build.tensor(3))
    refused(build.refusal(other), "rand", "generator of its own")


# ------------------------------------------------------------------ inputs that are written to


def test_a_write_to_an_input_of_no_fixed_address_is_refused(build: Builder) -> None:
    x = build.input("x", build.tensor(3))
    build.call(aten.copy_.default, x, build.call(aten.add.Tensor, x, 1, val=build.tensor(3)), val=x.meta["val"])
    refused(build.refusal(), "its input x", "is written to")


def test_a_write_to_a_fixed_address_is_fine(build: Builder) -> None:
    with build.mode:
        weight = build.input("weight", torch.nn.Parameter(build.tensor(3), requires_grad=False))
    new = build.call(aten.add.Tensor, weight, 1, val=build.tensor(3))
    build.call(aten.copy_.default, weight, new, val=weight.meta["val"])
    assert build.refusal() is None


# ------------------------------------------------------------------ devices


def test_inputs_on_the_host_are_refused_unless_nobody_reads_them(build: Builder) -> None:
    x = build.input("x", build.tensor(3))
    build.input("unused", build.tensor(3, device="cpu"))
    total = build.call(aten.add.Tensor, x, 1, val=build.tensor(3))
    host = build.input("host", build.tensor(3, device="cpu"))
    double = build.call(aten.mul.Tensor, host, 2, val=build.tensor(3, device="cpu"))
    refused(build.refusal(total, double), "its input host", "on the device cpu")


def test_a_single_number_on_the_host_may_be_read(build: Builder) -> None:
    x = build.input("x", build.tensor(3))
    number = build.input("number", build.tensor(device="cpu"))
    assert build.refusal(build.call(aten.mul.Tensor, x, number, val=build.tensor(3))) is None


def test_a_single_number_on_the_host_may_not_be_moved_computed_or_returned(build: Builder) -> None:
    number = build.input("number", build.tensor(device="cpu"))
    refused(build.refusal(build.call(aten._to_copy.default, number, val=build.tensor())), "number", "leaves it")
    build = Builder()
    number = build.input("number", build.tensor(device="cpu"))
    double = build.call(aten.mul.Tensor, number, 2, val=build.tensor(device="cpu"))
    refused(build.refusal(build.call(aten.sin.default, double, val=build.tensor())), "mul", "would not repeat")
    build = Builder()
    refused(build.refusal(build.input("number", build.tensor(device="cpu"))), "number", "leaves it")


def test_constants_of_the_host_may_be_read(build: Builder) -> None:
    x = build.input("x", build.tensor(3))
    kept = build.constant("kept", torch.tensor(2.0))
    lifted = build.call(aten.clone.default, kept, val=build.tensor(device="cpu"))
    made = build.call(aten.full.default, [], 2.0, val=build.tensor(device="cpu"))
    twice = build.call(aten.mul.Tensor, x, lifted, val=build.tensor(3))
    assert build.refusal(build.call(aten.mul.Tensor, twice, made, val=build.tensor(3))) is None


def test_random_numbers_of_the_host_are_refused(build: Builder) -> None:
    x = build.input("x", build.tensor(3))
    drawn = build.call(aten.rand.default, [], val=build.tensor(device="cpu"))
    refused(build.refusal(build.call(aten.mul.Tensor, x, drawn, val=build.tensor(3))), "rand", "would not repeat")


def test_tensors_on_two_devices_are_refused(build: Builder) -> None:
    build.input("x", build.tensor(3))
    x = build.input("y", build.tensor(3, device="cuda:1"))
    refused(build.refusal(build.call(aten.sin.default, x, val=build.tensor(3))), "it", "cuda:0 and cuda:1")


def test_layouts_without_strides_are_refused(build: Builder) -> None:
    x = build.input("x", build.tensor(3, 3))
    node = build.call(aten.relu.default, x, val=build.tensor(3, 3))
    node.meta["val"] = SparseLike(torch.empty(3, 3, device="meta"))
    refused(build.refusal(node), "relu", "has the layout torch.sparse_coo")


class SparseLike(torch.Tensor):
    """A tensor that says that it is sparse: sparse fakes of a device that is not there cannot be made."""

    @staticmethod
    def __new__(cls, like: torch.Tensor) -> SparseLike:
        return torch.Tensor._make_wrapper_subclass(
            cls, like.shape, dtype=like.dtype, device="cuda:0", layout=torch.sparse_coo
        )

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError


# ------------------------------------------------------------------ what is worth it


def test_views_and_numbers_alone_are_not_worth_a_recording(build: Builder) -> None:
    x = build.input("x", build.tensor(3, 3))
    n = build.input("n", 3)
    view = build.call(aten.t.default, x, val=build.tensor(3, 3))
    number = build.call(operator.mul, n, 2, val=6)
    assert is_view(view)
    graph = build.looked_at(view, number, x)
    assert not is_worth_recording(graph)
    assert why_not_recordable(graph) is None


def test_a_write_is_no_view(build: Builder) -> None:
    x = build.input("x", build.tensor(3))
    assert not is_view(build.call(aten.add_.Tensor, x, 1, val=build.tensor(3)))
    assert not is_view(build.call(aten.add.Tensor, x, 1, val=build.tensor(3)))
