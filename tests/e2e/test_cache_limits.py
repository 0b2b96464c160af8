"""How many entries a function may have, who shares them, and what happens beyond."""

from __future__ import annotations

import gc
import logging
import threading
import weakref

import pytest
import torch

import graphwright
from graphwright import config, events
from graphwright.exc import RecompileLimitExceeded
from graphwright.testing import CompileCounter

ones = torch.ones


def plus(x):
    return x + 1


def counted(fn, **options):
    """A function, compiled, and the counter of its graphs."""
    counter = CompileCounter()
    return graphwright.compile(fn, backend=counter, **options), counter


def call_with_lengths(compiled, lengths):
    for n in lengths:
        assert torch.equal(compiled(ones(n)), ones(n) + 1)


def test_lengths_2_to_6_compile_twice():
    compiled, counter = counted(plus)
    call_with_lengths(compiled, range(2, 7))
    assert counter.frame_count == 2


def test_nine_lengths_without_symbols_stop_at_eight(caplog):
    compiled, counter = counted(plus, dynamic=False)
    with events.collected(events.CacheLimitHit) as found, caplog.at_level(logging.WARNING, "graphwright"):
        call_with_lengths(compiled, range(1, 10))
        call_with_lengths(compiled, range(9, 13))
    assert counter.frame_count == 8
    [hit] = found
    assert (hit.limit, hit.setting) == (8, "recompile_limit")
    assert hit.reason == "tensor 'L['x']' size mismatch at index 0. expected 8, actual 9"
    [record] = caplog.records
    assert "reached recompile_limit (8)" in record.message
    assert hit.reason in record.message
    assert "mark_dynamic" in record.message


def test_beyond_the_limit_hits_still_hit():
    compiled, _ = counted(plus, dynamic=False)
    call_with_lengths(compiled, range(1, 12))
    report = graphwright.explain_recompiles(compiled)
    assert report.caches[0].is_run_only
    assert report.caches[0].entries == 8
    assert not report.recompiles[-1].captured
    ran = []

    class Watching(CompileCounter):
        def __call__(self, gm, example_inputs):
            call = super().__call__(gm, example_inputs)
            return lambda *args: (ran.append(1), call(*args))[1]

    graphwright.reset()
    compiled = graphwright.compile(plus, backend=Watching(), dynamic=False)
    call_with_lengths(compiled, range(1, 10))
    ran.clear()
    call_with_lengths(compiled, [3, 3, 9, 8])
    assert len(ran) == 3


def test_limit_can_be_set():
    compiled, counter = counted(plus, dynamic=False)
    with config.patch(recompile_limit=3):
        call_with_lengths(compiled, range(1, 10))
    assert counter.frame_count == 3
    graphwright.reset()
    with config.patch(recompile_limit=12):
        call_with_lengths(compiled, range(1, 12))
    assert counter.frame_count == 14


@pytest.mark.parametrize(
    ("alias", "name"),
    [("cache_size_limit", "recompile_limit"), ("accumulated_cache_size_limit", "accumulated_recompile_limit")],
)
def test_names_of_torch(alias, name):
    assert getattr(config, alias) == getattr(config, name)
    with config.patch({alias: 5}):
        assert getattr(config, alias) == getattr(config, name) == 5
        setattr(config, alias, 6)
        assert getattr(config, name) == 6
        delattr(config, alias)
    assert (config.recompile_limit, config.accumulated_recompile_limit) == (8, 256)


def test_defaults():
    assert (config.recompile_limit, config.accumulated_recompile_limit) == (8, 256)
    assert config.automatic_dynamic_shapes
    assert config.assume_static_by_default


def test_without_automatic_dynamic_shapes_each_size_is_captured():
    compiled, counter = counted(plus)
    with config.patch(automatic_dynamic_shapes=False):
        call_with_lengths(compiled, range(2, 7))
    assert counter.frame_count == 5


def test_without_static_by_default_sizes_are_symbols_at_once():
    compiled, counter = counted(plus)
    with config.patch(assume_static_by_default=False):
        call_with_lengths(compiled, range(2, 7))
    assert counter.frame_count == 1


@pytest.mark.parametrize(
    ("options", "settings"), [({"fullgraph": True}, {}), ({}, {"fail_on_recompile_limit_hit": True})]
)
def test_beyond_the_limit_may_be_an_error(options, settings):
    compiled, counter = counted(plus, dynamic=False, **options)
    with config.patch(settings):
        call_with_lengths(compiled, range(1, 9))
        for _ in range(2):
            with pytest.raises(RecompileLimitExceeded, match="compiled 8 times, the recompile_limit") as caught:
                compiled(ones(9))
        assert caught.value.reason == "tensor 'L['x']' size mismatch at index 0. expected 8, actual 9"
        assert "mark_dynamic" in caught.value.remedy
        call_with_lengths(compiled, [8, 1, 5])
    assert counter.frame_count == 8


def test_all_captures_together_are_limited():
    compiled, counter = counted(plus, dynamic=False)
    with config.patch(accumulated_recompile_limit=4), events.collected(events.CacheLimitHit) as found:
        call_with_lengths(compiled, range(1, 8))
    assert counter.frame_count == 4
    assert found[0].setting == "accumulated_recompile_limit"


def wrapped(fn):
    def wrapper(x, n=0):
        return fn(x) + n

    return wrapper


FUNCTIONS = [torch.sin, torch.cos, torch.tan, torch.exp, torch.abs, torch.neg, torch.tanh, torch.sigmoid, torch.relu,
             torch.erf, torch.ceil, torch.floor]  # fmt: skip


def test_entries_for_other_objects_do_not_count():
    counter = CompileCounter()
    compiled = [graphwright.compile(wrapped(fn), backend=counter) for fn in FUNCTIONS]
    for fn, each in zip(FUNCTIONS, compiled, strict=True):
        assert torch.equal(each(ones(3)), fn(ones(3)))
    assert counter.frame_count == len(FUNCTIONS)


def test_entries_for_other_objects_do_not_count_where_sizes_differ_too():
    counter = CompileCounter()
    with config.patch(recompile_limit=4):
        for fn in FUNCTIONS[:6]:
            each = graphwright.compile(wrapped(fn), backend=counter, dynamic=False)
            for n in (2, 3, 4, 5):
                assert torch.equal(each(ones(n)), fn(ones(n)))
    assert counter.frame_count == 24


def test_each_object_has_the_limit():
    counter = CompileCounter()
    with config.patch(recompile_limit=3), events.collected(events.CacheLimitHit) as found:
        for fn in FUNCTIONS[:2]:
            each = graphwright.compile(wrapped(fn), backend=counter, dynamic=False)
            for n in range(2, 8) if fn is FUNCTIONS[1] else (2, 3):
                assert torch.equal(each(ones(n)), fn(ones(n)))
    assert counter.frame_count == 5
    assert len(found) == 1


def test_objects_that_go_do_not_get_around_the_limit():
    def with_class(x, o):
        return x + o.v

    compiled, counter = counted(with_class)
    with config.patch(accumulated_recompile_limit=5), events.collected(events.CacheLimitHit) as found:
        for _ in range(9):
            assert torch.equal(compiled(ones(3), type("Fresh", (), {"v": 3})()), ones(3) + 3)
            gc.collect()
    assert counter.frame_count == 5
    assert len(found) == 1


def test_a_hit_goes_to_the_front():
    compiled, _ = counted(plus, dynamic=False)
    call_with_lengths(compiled, [2, 3, 4, 2, 3])
    with events.collected(events.Recompiled) as found:
        compiled(ones(7))
    assert [failure.expected for failure in found[0].failures] == [3, 2, 4]


def test_reset_frees_what_was_captured():
    compiled, counter = counted(plus)
    compiled(ones(3))
    graph = weakref.ref(counter.graphs[0])
    counter.clear()
    graphwright.reset()
    gc.collect()
    assert graph() is None


def test_reset_lifts_run_only():
    compiled, counter = counted(plus, dynamic=False)
    call_with_lengths(compiled, range(1, 11))
    graphwright.reset()
    call_with_lengths(compiled, range(9, 13))
    assert counter.frame_count == 12


def test_reset_by_another_thread():
    compiled, counter = counted(plus)
    call_with_lengths(compiled, [3, 3])
    thread = threading.Thread(target=graphwright.reset)
    thread.start()
    thread.join()
    call_with_lengths(compiled, [3, 3])
    assert counter.frame_count == 2


def test_entries_serve_all_threads():
    compiled, counter = counted(plus)
    threads = [threading.Thread(target=compiled, args=(ones(3),)) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    assert counter.frame_count == 1


WAYS = [{}, {"dynamic": False}, {"dynamic": True}, {"fullgraph": True}, {"fullgraph": True, "dynamic": True}]


def test_each_way_to_compile_has_its_own_entries():
    counter = CompileCounter()
    for options in WAYS * 2:
        graphwright.compile(plus, backend=counter, **options)(ones(3))
    assert counter.frame_count == len(WAYS)


def test_each_backend_has_its_own_entries():
    first, second = CompileCounter(), CompileCounter()
    for counter in (first, second, first, second):
        graphwright.compile(plus, backend=counter)(ones(3))
    assert first.frame_count == second.frame_count == 1


def test_options_are_part_of_the_backend():
    with events.collected(events.GraphCompiled) as found:
        for options in ({}, {"dynamic": False}):
            for backend in ("eager", "aot_eager"):
                graphwright.compile(plus, backend=backend, **options)(ones(3))
    assert [event.backend for event in found] == ["eager", "aot_eager"] * 2


def test_run_only_holds_for_one_way_alone():
    compiled, _ = counted(plus, dynamic=False)
    call_with_lengths(compiled, range(1, 11))
    other, second = counted(plus, dynamic=False)
    call_with_lengths(other, [20])
    assert second.frame_count == 1


MARKS = {
    "graphwright": (graphwright.mark_dynamic, graphwright.maybe_mark_dynamic, graphwright.mark_static),
    "torch._dynamo": (torch._dynamo.mark_dynamic, torch._dynamo.maybe_mark_dynamic, torch._dynamo.mark_static),
}


@pytest.mark.parametrize("library", MARKS)
def test_marks(library):
    dynamic, maybe, static = MARKS[library]
    for mark in (dynamic, maybe):
        compiled, counter = counted(plus)
        for n in (3, 4, 5):
            x = ones(n)
            mark(x, 0)
            assert torch.equal(compiled(x), ones(n) + 1)
        assert counter.frame_count == 1, mark
    compiled, counter = counted(plus)
    for n in (3, 4, 5):
        x = ones(n)
        static(x)
        assert torch.equal(compiled(x), ones(n) + 1)
    assert counter.frame_count == 3


def test_unbacked_by_either_name():
    for mark in (graphwright.mark_unbacked, torch._dynamo.decorators.mark_unbacked):
        compiled, counter = counted(plus)
        for n in (3, 1, 0):
            x = ones(n)
            mark(x, 0)
            assert torch.equal(compiled(x), ones(n) + 1)
        assert counter.frame_count == 1, mark
