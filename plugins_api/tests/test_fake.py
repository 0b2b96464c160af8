"""Help around fake values."""

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from graphwright_plugins import UnsupportedGraph, constants_of, device_of, real_examples, symbols_of
from graphwright_plugins.torch_compat import as_fake, as_symbolic, new_fake_mode, shape_env_of_inputs


def test_real_examples_have_the_layout_of_the_fakes():
    mode = new_fake_mode()
    base = torch.randn(4, 6)
    inputs = [base.t(), base[1:, ::2], torch.ones(3, requires_grad=True), torch.arange(3), torch.ones(2).bool(), 5, 2.5]
    fakes = [as_fake(mode, value) for value in inputs]
    made = real_examples(fakes)
    for real, fake in zip(made[:5], fakes[:5], strict=True):
        assert type(real) is torch.Tensor
        assert (real.shape, real.stride(), real.storage_offset()) == (fake.shape, fake.stride(), fake.storage_offset())
        assert (real.dtype, real.device, real.requires_grad) == (fake.dtype, fake.device, fake.requires_grad)
    assert made[5:] == [5, 2.5]
    assert made[0].untyped_storage().data_ptr() == made[1].untyped_storage().data_ptr()
    assert set(made[3].tolist()) <= {0, 1}


def test_equal_seeds_give_equal_values_and_leave_random_state_alone():
    fake = as_fake(new_fake_mode(), torch.ones(5))
    before = torch.get_rng_state()
    one, same, other = (real_examples([fake], seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_symbols_are_the_same_number_everywhere_and_nothing_is_assumed():
    mode = new_fake_mode()
    fake = as_symbolic(mode, torch.ones(5, 3), (0,))
    size = fake.shape[0]
    with mode:
        wide = torch.empty(size * 2, size)
    inputs = [fake, size, wide, size + 1]
    before = len(shape_env_of_inputs([fake]).guards)
    real, number, real_wide, more = real_examples(inputs)
    assert (real.shape, number, real_wide.shape, more) == ((5, 3), 5, (10, 5), 6)
    assert len(shape_env_of_inputs([fake]).guards) == before
    assert symbols_of([wide, fake, size]) == {str(size): (0, 1)}
    assert symbols_of([fake, size]) == {str(size): (0, 0)}


def test_a_size_without_a_value_gets_a_plausible_one():
    mode = new_fake_mode()
    unbacked = mode.shape_env.create_unbacked_symint()
    torch._check(unbacked >= 7)
    (number,) = real_examples([unbacked])
    assert number >= 7


def test_the_device_of_a_graph():
    def traced(function, *inputs):
        return make_fx(function, tracing_mode="fake")(*inputs)

    x, scalar = torch.ones(2, device="meta"), torch.tensor(2.0)
    assert device_of(traced(lambda x, s: x * s, x, scalar)) == torch.device("meta")
    assert device_of(traced(lambda s: s * 2, scalar)) == torch.device("cpu")
    assert device_of(fx.symbolic_trace(lambda x: x + 1), [torch.ones(2)]) == torch.device("cpu")
    assert device_of(fx.symbolic_trace(lambda n: n + 1), [3]) is None
    with pytest.raises(UnsupportedGraph, match=r"several devices: .* on meta, .* on cpu"):
        device_of(traced(lambda x, y: (x * 2, y), x, torch.ones(2)))


def test_the_constants_of_a_graph():
    root, graph = torch.nn.Module(), fx.Graph()
    root.weight = torch.nn.Parameter(torch.ones(2))
    root.inner = torch.nn.Module()
    root.inner.table = torch.arange(2)
    x = graph.placeholder("x")
    scaled = graph.call_function(torch.mul, (x, graph.get_attr("weight")))
    graph.output((graph.call_function(torch.add, (scaled, graph.get_attr("inner.table"))),))
    held = constants_of(fx.GraphModule(root, graph))
    assert list(held) == ["weight", "inner.table"]
    assert torch.equal(held["inner.table"], torch.arange(2))
