"""State of torch that a call depends on without receiving it: its changes are noticed, and made."""

from __future__ import annotations

import contextlib
import threading

import pytest
import torch
from torch.overrides import TorchFunctionMode

import graphwright
from graphwright.likeness import Likeness
from graphwright.testing import CompileCounter

nothing = contextlib.nullcontext


def setting(put, get, value):
    """A context in which a setting has a value."""

    @contextlib.contextmanager
    def context():
        before = get()
        put(value)
        try:
            yield
        finally:
            put(before)

    return context


class PlusOne(TorchFunctionMode):
    """Adds one to what additions give."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result + 1 if func is torch.Tensor.add else result


deterministic = setting(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled, True)
doubles = setting(torch.set_default_dtype, torch.get_default_dtype, torch.float64)
device_meta = setting(torch.set_default_device, lambda: None, "meta")
two_threads = setting(torch.set_num_threads, torch.get_num_threads, 2)


def autocast(dtype=torch.bfloat16, **kwargs):
    return lambda: torch.autocast("cpu", dtype, **kwargs)


@contextlib.contextmanager
def warn_only():
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def doubled(x):
    return x * 2


def squared(x):
    return x @ x


def made(x):
    return torch.zeros(2, 2) + 1


def added(x):
    return x.add(1)


def asks(x):
    return x + 1 if torch.are_deterministic_algorithms_enabled() else x - 1


def asks_grad(x):
    return x + 1 if torch.is_grad_enabled() else x - 1


def asks_inference(x):
    return x + 1 if torch.is_inference_mode_enabled() else x - 1


def asks_autocast(x):
    return x + 1 if torch.is_autocast_enabled("cpu") else x - 1


def asks_threads(x):
    return x + torch.get_num_threads()


def weight():
    return torch.ones(3, 3, requires_grad=True)


AMBIENT = [
    (doubled, [nothing, torch.no_grad, torch.inference_mode, torch.enable_grad], 3),
    (asks_grad, [nothing, torch.no_grad, torch.enable_grad], 2),
    (asks_inference, [nothing, torch.inference_mode, lambda: torch.inference_mode(False)], 2),
    (
        squared,
        [nothing, autocast(), autocast(torch.float16), autocast(cache_enabled=False), autocast(enabled=False)],
        4,
    ),
    (asks_autocast, [nothing, autocast(), autocast(enabled=False)], 2),
    (doubled, [nothing, deterministic, warn_only], 3),
    (asks, [nothing, deterministic], 2),
    (made, [nothing, doubles], 2),
    (made, [nothing, device_meta, lambda: torch.device("meta"), lambda: torch.device("cpu")], 3),
    (doubled, [nothing, two_threads], 2),
    (asks_threads, [nothing, two_threads], None),
    (added, [nothing, PlusOne, nothing], None),
]


def same(got, want):
    assert got.is_inference() == want.is_inference()
    assert Likeness().difference(got, want, "result") is None


@pytest.mark.parametrize(("fn", "contexts", "compiles"), AMBIENT, ids=lambda value: getattr(value, "__name__", ""))
def test_each_state_has_its_own_entry(fn, contexts, compiles):
    counter = CompileCounter()
    compiled = graphwright.compile(fn, backend=counter)
    for context in contexts * 2:
        with context():
            same(compiled(weight()), fn(weight()))
    assert compiles is None or counter.frame_count == compiles


# ------------------------------------------------------------------ state that the function sets


def sets_grad(x):
    torch.set_grad_enabled(False)
    return x * 2


def sets_grad_between(x):
    y = x * 2
    with torch.no_grad():
        z = y * 3
    with torch.enable_grad():
        return y + z


def sets_inference(x):
    with torch.inference_mode():
        return x + 1


def sets_autocast(x):
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", torch.float16)
    torch.set_autocast_cache_enabled(False)
    return x @ x


def within_autocast(x):
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        y = x @ x
    return y, x @ x


def sets_deterministic(x):
    torch.use_deterministic_algorithms(True, warn_only=True)
    return x + 1


def sets_default_dtype(x):
    torch.set_default_dtype(torch.float64)
    return torch.zeros(3)


def sets_default_device(x):
    torch.set_default_device("meta")
    return torch.zeros(3)


def within_a_device(x):
    with torch.device("meta"):
        y = torch.zeros(3)
    return y, torch.zeros(3)


def within_a_device_from_outside(x):
    with DEVICE:
        return torch.zeros(3) + 1


def enters_a_device_by_hand(x):
    DEVICE.__enter__()
    y = torch.zeros(3)
    DEVICE.__exit__(None, None, None)
    return y, torch.zeros(3)


DEVICE = torch.device("meta")


def sets_threads(x):
    torch.set_num_threads(3)
    return x + torch.get_num_threads()


def within_a_function_mode(x):
    with PlusOne():
        y = x.add(1)
    return y, x.add(1)


def sets_and_raises(x):
    torch.set_grad_enabled(False)
    y = x * 2
    raise ValueError(str(y.requires_grad))


SETTING = [
    sets_grad, sets_grad_between, sets_inference, sets_autocast, within_autocast, sets_deterministic,
    sets_default_dtype, sets_default_device, within_a_device, within_a_device_from_outside, enters_a_device_by_hand,
    sets_threads, within_a_function_mode, sets_and_raises,
]  # fmt: skip


def state():
    return (
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled(), torch.get_default_dtype(),
        torch.get_default_device(), torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(), torch.get_num_threads(),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _state_of_before():
    threads = torch.get_num_threads()
    yield
    restore(threads)


def restore(threads=1):
    torch.set_grad_enabled(True)
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_autocast_cache_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


def outcome(fn, x):
    """What a call gives or raises, and the state that it leaves."""
    restore()
    try:
        result = fn(x)
    except ValueError as error:
        result = str(error)
    return result, state()


@pytest.mark.parametrize("fn", SETTING, ids=lambda fn: fn.__name__)
def test_what_the_function_sets_is_set(fn):
    want = outcome(fn, weight())
    compiled = graphwright.compile(fn, backend="eager")
    for _ in range(3):
        got = outcome(compiled, weight())
        restore()
        assert got[1] == want[1]
        assert Likeness().difference(got[0], want[0], "result") is None


def test_threads_have_their_own_state():
    counter = CompileCounter()
    compiled = graphwright.compile(doubled, backend=counter)
    found = []

    def call():
        found.append(compiled(weight()).requires_grad)

    with torch.no_grad():
        assert not compiled(weight()).requires_grad
        for _ in range(2):
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
        assert not compiled(weight()).requires_grad
    assert found == [True, True]
    assert counter.frame_count == 2


def test_state_that_goes_to_and_fro_is_captured_once_each():
    counter = CompileCounter()
    compiled = graphwright.compile(squared, backend=counter)
    for _ in range(10):
        for context in (nothing, torch.no_grad, autocast(), torch.inference_mode):
            with context():
                same(compiled(weight()), squared(weight()))
    assert counter.frame_count == 4
