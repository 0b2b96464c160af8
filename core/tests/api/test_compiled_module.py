"""The face of a compiled module: everything but calling is the module's own."""

from __future__ import annotations

import abc
import copy
import gc
import inspect
import io
import pickle
import warnings
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import graphwright
from graphwright import events
from graphwright.compiled_module import original_module
from graphwright.testing import CompileCounter

X = torch.arange(6.0).reshape(3, 2)


class Net(nn.Module):
    """A small net."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(2, width)
        self.norm = nn.BatchNorm1d(width)
        self.second = nn.Linear(width, 2)
        self.register_buffer("calls", torch.zeros(()))
        self.scale = 2.0

    def forward(self, x: torch.Tensor, mask: Any = None, *, flip: bool = False) -> torch.Tensor:
        x = self.second(self.norm(self.first(x)).relu()) * self.scale
        return -x if flip else x

    def generate(self, x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = self(x)
        return x

    @property
    def width(self) -> int:
        return self.first.out_features


def compiled_net() -> tuple[Net, Net, CompileCounter]:
    torch.manual_seed(0)
    net, counter = Net().eval(), CompileCounter()
    return net, graphwright.compile(net, backend=counter), counter


def test_result_is_the_modules() -> None:
    net, compiled, counter = compiled_net()
    for flip in (False, True):
        assert torch.equal(compiled(X, flip=flip), net(X, flip=flip))
    assert counter.frame_count == 2


def test_class_and_names() -> None:
    net, compiled, _ = compiled_net()
    assert isinstance(compiled, Net)
    assert compiled.__class__ is Net
    assert type(compiled).__name__ == "Net"
    assert repr(compiled) == repr(net)
    assert compiled.__doc__ == "A small net."
    assert compiled.width == 4
    assert original_module(compiled) is net
    assert original_module(net) is None


def test_signature_of_forward() -> None:
    net, compiled, _ = compiled_net()
    assert inspect.signature(compiled.forward) == inspect.signature(net.forward)
    assert inspect.signature(compiled.__class__.forward) == inspect.signature(Net.forward)
    assert inspect.signature(type(compiled).forward) == inspect.signature(Net.forward)
    assert inspect.signature(compiled) == inspect.signature(net)


def test_state_has_the_same_names_and_is_shared() -> None:
    net, compiled, _ = compiled_net()
    assert list(compiled.state_dict()) == list(net.state_dict())
    for ours, theirs in [
        (compiled.named_parameters(), net.named_parameters()),
        (compiled.named_buffers(), net.named_buffers()),
        (compiled.named_children(), net.named_children()),
    ]:
        assert [(n, id(v)) for n, v in ours] == [(n, id(v)) for n, v in theirs]
    assert [n for n, _ in compiled.named_modules()] == [n for n, _ in net.named_modules()]
    Net().load_state_dict(compiled.state_dict())
    compiled.load_state_dict(Net().state_dict())
    assert vars(compiled) is vars(net)


def test_attributes_are_shared_both_ways() -> None:
    net, compiled, _ = compiled_net()
    compiled.scale = 3.0
    assert net.scale == 3.0
    net.extra = nn.Linear(1, 1)
    assert compiled.extra is net.extra
    compiled.more = nn.Parameter(torch.ones(1))
    assert "more" in dict(net.named_parameters())
    del compiled.extra
    assert not hasattr(net, "extra")
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        compiled.nothing


def test_changes_after_the_first_call_are_seen() -> None:
    net, compiled, _ = compiled_net()
    assert torch.equal(compiled(X), net(X))
    net.scale = 5.0
    assert torch.equal(compiled(X), net(X))
    compiled.first.weight = nn.Parameter(torch.ones(4, 2))
    assert torch.equal(compiled(X), net(X))
    net.second = nn.Linear(4, 2, bias=False)
    assert torch.equal(compiled(X), net(X))


def test_train_eval_and_to() -> None:
    net, compiled, _ = compiled_net()
    assert compiled.train() is compiled
    assert net.training
    assert net.norm.training
    twin = copy.deepcopy(net)
    assert torch.equal(compiled(X), twin(X))
    assert torch.equal(net.norm.running_mean, twin.norm.running_mean)
    compiled.eval()
    assert not net.norm.training
    assert compiled.double() is compiled
    assert net.first.weight.dtype == torch.float64
    assert torch.equal(compiled(X.double()), net(X.double()))


def test_gradients() -> None:
    net, compiled, _ = compiled_net()
    twin = copy.deepcopy(net)
    compiled(X).sum().backward()
    twin(X).sum().backward()
    for ours, theirs in zip(net.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)
    compiled.zero_grad()
    assert net.first.weight.grad is None


def test_methods_that_call_the_module_run_compiled() -> None:
    net, compiled, counter = compiled_net()
    with torch.no_grad():
        assert torch.equal(compiled.generate(X, 3), net.generate(X, 3))
    assert counter.frame_count == 1


def test_forward_is_compiled_too() -> None:
    net, compiled, counter = compiled_net()
    assert torch.equal(compiled.forward(X), net(X))
    assert counter.frame_count == 1


def test_hooks_run_as_in_eager_and_get_the_module() -> None:
    net, compiled, counter = compiled_net()
    story: list[Any] = []
    net.register_forward_pre_hook(lambda m, args: story.append(("pre", m is net, len(args))))
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, "flip": True}), with_kwargs=True)
    handle = compiled.register_forward_hook(lambda m, args, out: story.append(("post", m is net)) or out + 1)
    compiled.register_forward_hook(lambda m, a, k, out: story.append(("kw", m is net, k)), with_kwargs=True)
    want = net(X)
    eager_story, story[:] = story[:], []
    assert torch.equal(compiled(X), want)
    assert story == eager_story == [("pre", True, 1), ("post", True), ("kw", True, {"flip": True})]
    assert counter.frame_count == 1
    handle.remove()
    assert torch.equal(compiled(X), net(X))
    assert counter.frame_count == 1


def test_hooks_called_always() -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyError("mine")

    story: list[str] = []
    net = Fails()
    net.register_forward_hook(lambda m, args, out: story.append("hook"), always_call=True)
    compiled = graphwright.compile(net, backend="eager")
    for call in (net, compiled):
        with pytest.raises(KeyError, match="mine"):
            call(X)
    assert story == ["hook", "hook"]


def test_backward_hooks() -> None:
    net, compiled, counter = compiled_net()
    story: list[Any] = []
    net.register_full_backward_hook(lambda m, gin, gout: story.append(("full", m is net, gout[0].sum().item())))
    net.register_full_backward_pre_hook(lambda m, gout: story.append(("pre", m is net)))
    for call in (net, compiled):
        call(X.clone().requires_grad_()).sum().backward()
    assert story == [("pre", True), ("full", True, 6.0)] * 2
    assert counter.frame_count == 1


def test_global_hooks() -> None:
    net, compiled, _ = compiled_net()
    story: list[str] = []
    handle = nn.modules.module.register_module_forward_hook(lambda m, args, out: story.append(type(m).__name__))
    try:
        with graphwright.config.patch(raise_internal_errors=False):
            for call in (net, compiled):
                call(X)
    finally:
        handle.remove()
    assert story == ["Linear", "BatchNorm1d", "Linear", "Net"] * 2


def test_own_forward_of_an_instance() -> None:
    net, compiled, counter = compiled_net()
    net.forward = lambda x: x + 100
    assert torch.equal(compiled(X), X + 100)
    assert torch.equal(compiled.forward(X), X + 100)
    assert counter.frame_count == 1
    compiled.forward = lambda x: x + 200
    assert torch.equal(net(X), X + 200)
    assert torch.equal(compiled(X), X + 200)
    del compiled.forward
    assert "forward" not in vars(net)
    assert torch.equal(compiled(X), net(X))


def test_forward_replaced_on_the_class() -> None:
    class Local(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    compiled = graphwright.compile(Local(), backend="eager")
    assert torch.equal(compiled(X), X + 1)
    Local.forward = lambda self, x: x + 2  # type: ignore[method-assign]
    assert torch.equal(compiled(X), X + 2)
    Local.__call__ = lambda self, x: self.forward(x) * 2  # type: ignore[method-assign]
    assert torch.equal(compiled(X), (X + 2) * 2)


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_odd_forward(kind: Any) -> None:
    class Odd(nn.Module):
        forward = kind((lambda x: x + 1) if kind is staticmethod else (lambda cls, x: x + 1))

    compiled = graphwright.compile(Odd(), backend="eager")
    assert torch.equal(compiled(X), X + 1)
    assert torch.equal(compiled.forward(X), X + 1)


def test_deepcopy_is_independent_and_compiled() -> None:
    net, compiled, _ = compiled_net()
    twin = copy.deepcopy(compiled)
    assert original_module(twin) is not None
    assert isinstance(twin, Net)
    assert twin.first.weight is not net.first.weight
    twin.scale = 7.0
    assert net.scale == 2.0
    assert torch.equal(twin(X), net(X) / 2 * 7)
    shallow = copy.copy(compiled)
    assert original_module(shallow) is not None
    assert shallow.first is net.first


def test_pickle_compiles_on_load() -> None:
    torch.manual_seed(0)
    net = Net().eval()
    compiled = graphwright.compile(net, backend="eager")
    loaded = pickle.loads(pickle.dumps(compiled))
    assert original_module(loaded) is not None
    assert torch.equal(loaded(X), net(X))
    file = io.BytesIO()
    torch.save(nn.Sequential(compiled), file)
    file.seek(0)
    parent = torch.load(file, weights_only=False)
    assert original_module(parent[0]) is not None
    assert torch.equal(parent(X), net(X))


def test_inside_another_module() -> None:
    net, compiled, counter = compiled_net()
    parent = nn.Sequential(compiled)
    assert list(parent.state_dict()) == [f"0.{name}" for name in net.state_dict()]
    assert len(list(parent.parameters())) == len(list(net.parameters()))
    assert torch.equal(parent(X), net(X))
    assert counter.frame_count == 1


def test_two_faces_share_what_was_captured() -> None:
    net, compiled, counter = compiled_net()
    compiled(X)
    graphwright.compile(net, backend=counter)(X)
    assert counter.frame_count == 1
    again = graphwright.compile(compiled, backend=counter)
    assert original_module(again) is net


def test_lives_as_long_as_it_is_used() -> None:
    net, compiled, _ = compiled_net()
    compiled(X)
    gone = [weakref.ref(net), weakref.ref(compiled), weakref.ref(net.first)]
    del net
    gc.collect()
    assert gone[0]() is not None
    del compiled
    gc.collect()
    assert [ref() for ref in gone] == [None, None, None]


# ------------------------------------------------------------------ odd classes


class Registering(nn.Module):
    known: list[type] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Registering.known.append(cls)


class WithMeta(Registering, metaclass=abc.ABCMeta):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_making_a_face_registers_no_class() -> None:
    before = list(Registering.known)
    compiled = graphwright.compile(WithMeta(), backend="eager")
    assert torch.equal(compiled(X), X + 1)
    assert Registering.known == before == [WithMeta]


class Slotted(nn.Module):
    __slots__ = ("amount",)

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "amount", 3.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.amount


def test_slots_are_shared() -> None:
    net = Slotted()
    compiled = graphwright.compile(net, backend="eager")
    assert compiled.amount == 3.0
    compiled.amount = 4.0
    assert net.amount == 4.0
    assert torch.equal(compiled(X), net(X))


class Delegating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def test_own_getattr() -> None:
    compiled = graphwright.compile(Delegating(), backend="eager")
    assert compiled.out_features == 2
    assert torch.equal(compiled(X), compiled.inner(X))


def test_own_call() -> None:
    class Calls(nn.Module):
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return self.forward(x) * 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    compiled = graphwright.compile(Calls(), backend="eager")
    assert torch.equal(compiled(X), (X + 1) * 2)


def test_making_another_of_the_same_type() -> None:
    _, compiled, _ = compiled_net()
    for cls in (type(compiled), compiled.__class__):
        other = cls(width=3)
        assert type(other) is Net
        assert other.width == 3


def test_containers() -> None:
    seq = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    compiled = graphwright.compile(seq, backend="eager")
    assert len(compiled) == 2
    assert compiled[0] is seq[0]
    assert [type(m) for m in compiled] == [nn.Linear, nn.ReLU]
    assert torch.equal(compiled[:1](X), seq[:1](X))
    compiled.append(nn.Tanh())
    assert torch.equal(compiled(X), seq(X))


def test_lazy_module() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = nn.LazyLinear(3)
    compiled = graphwright.compile(net, backend="eager")
    assert compiled(X).shape == (3, 3)
    assert type(net) is nn.Linear
    assert isinstance(compiled, nn.Linear)
    assert torch.equal(compiled(X), net(X))


def test_parametrization_of_a_face() -> None:
    net = nn.Linear(2, 2)
    compiled = graphwright.compile(net, backend="eager")
    nn.utils.parametrize.register_parametrization(compiled, "weight", nn.Tanh())
    assert nn.utils.parametrize.is_parametrized(compiled)
    assert torch.equal(compiled.weight, net.weight)
    assert torch.equal(compiled(X), net(X))


def test_graph_module() -> None:
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    compiled = graphwright.compile(traced, backend="eager")
    assert torch.equal(compiled(X), traced(X))
    assert torch.equal(copy.deepcopy(compiled)(X), traced(X))


def test_script_module_stays_itself() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.trace(nn.ReLU(), X)
    with events.collected(events.FrameSkipped) as found:
        assert graphwright.compile(script, backend="eager") is script
    assert "TorchScript" in str(found[0])


def test_module_without_init_is_refused() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            pass

    with pytest.raises(ValueError, match=r"Bare was passed whose __init__ did not call nn.Module.__init__"):
        graphwright.compile(Bare(), backend="eager")


def test_module_with_state_elsewhere_is_refused() -> None:
    class Both(nn.Module, dict):  # type: ignore[type-arg]
        pass

    with pytest.raises(ValueError, match=r"Both .*compile .*forward instead"):
        graphwright.compile(Both(), backend="eager")


def test_wrong_arguments_raise_what_the_module_raises() -> None:
    net, compiled, _ = compiled_net()
    with pytest.raises(TypeError) as want:
        net()
    with pytest.raises(TypeError) as got:
        compiled()
    assert str(got.value) == str(want.value)
