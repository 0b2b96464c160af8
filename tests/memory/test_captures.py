"""What was captured dies with the program it was captured from."""

import gc
import logging
import weakref

import pytest
import torch
from gwmemory import PROGRAMS, References, collect, fresh, growth

import graphwright
from graphwright import events
from graphwright.frame_filter import EXPECTED_CODE

pytestmark = pytest.mark.timeout(3000)
RAISE = ("raises", "shape_error")
QUICK = ("closure", "explicit_break")
CAPTURES = 10_000


def _slow_or_quick(name):
    return name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)


def keeps_the_graph(graph, example_inputs):
    """A backend that gives the graph module itself, as a plain callable may."""
    return graph


def run_once(name, backend):
    """Execute, compile and call a program; references to its parts are all that is left."""
    namespace, example = fresh(name)
    references = References()
    references.add_namespace(namespace)
    references.add(example, "input")
    compiled = graphwright.compile(namespace["f"], backend=backend)
    for _ in range(2):
        if name in RAISE:
            with pytest.raises((ValueError, RuntimeError)):
                compiled(example)
        else:
            compiled(example)
    return references


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.slow), keeps_the_graph])
@pytest.mark.parametrize("name", [*map(_slow_or_quick, PROGRAMS)])
def test_nothing_outlives_its_program(name, backend):
    references = run_once(name, backend)
    collect()
    assert references.alive() == []


def test_graph_and_fakes_die_with_the_code():
    graphs = []

    def backend(graph, example_inputs):
        fakes = [node.meta["example_value"] for node in graph.graph.nodes if node.op == "placeholder"]
        modes = [fake.fake_mode for fake in fakes]
        graphs.extend(map(weakref.ref, (graph, *fakes, *modes, *(mode.shape_env for mode in modes))))
        return graph

    for name in ("closure", "explicit_break"):
        run_once(name, backend)
    assert len(graphs) >= 8
    collect()
    assert [ref() for ref in graphs if ref() is not None] == []


def test_entries_of_a_dead_class_go_though_the_code_lives():
    def make():
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 2

            def forward(self, x):
                return x * self.scale

        return Model()

    graphs = []

    def backend(graph, example_inputs):
        graphs.append(weakref.ref(graph))
        return graph

    compiled = graphwright.compile(make(), backend=backend)
    compiled(torch.ones(2))
    assert graphs[0]() is not None
    del compiled
    collect()
    assert graphs[0]() is None


def test_entries_go_with_their_backend():
    def f(x):
        return x + 1

    graphs = []

    def compile_with_a_backend_of_its_own():
        def backend(graph, example_inputs):
            graphs.append(weakref.ref(graph))
            return graph

        graphwright.compile(f, backend=backend)(torch.ones(2))

    compile_with_a_backend_of_its_own()
    collect()
    assert len(graphs) == 1
    assert graphs[0]() is None


def test_code_that_equals_dead_code_is_captured_all_the_same():
    def run():
        namespace, example = fresh("explicit_break")
        return namespace["f"], graphwright.compile(namespace["f"], backend="eager"), example

    first, compiled_first, example = run()
    second, compiled_second, _ = run()
    assert first.__code__ == second.__code__
    assert first.__code__ is not second.__code__
    compiled_first(example)
    del first, compiled_first
    collect()
    with events.collected(events.GraphCompiled) as graphs:
        assert torch.equal(compiled_second(example), (example + 1) * 2)
        assert torch.equal(compiled_second(example), (example + 1) * 2)
    assert len(graphs) == 2
    assert second.__code__ in EXPECTED_CODE


@pytest.mark.parametrize("name", ["closure", "effects", "explicit_break"])
def test_inputs_are_not_kept_alive(name):
    namespace, _ = fresh(name)
    compiled = graphwright.compile(namespace["f"], backend=keeps_the_graph)
    died = []
    for _ in range(2):
        example = torch.ones(1, 2) if name == "modules" else torch.ones(2)
        died.append(weakref.ref(example))
        compiled(example)
        del example
    for kept in ("log", "table"):  # what the program itself keeps
        namespace.get(kept, []).clear()
    del compiled
    collect()
    assert [ref() for ref in died] == [None, None]


def test_parameters_replaced_after_a_call_die():
    module = torch.nn.Linear(2, 2)
    compiled = graphwright.compile(module, backend=keeps_the_graph)
    compiled(torch.ones(1, 2))
    old = weakref.ref(module.weight)
    module.weight = torch.nn.Parameter(torch.ones(2, 2))
    collect()
    assert old() is None


@pytest.mark.slow
def test_captures_of_all_programs_do_not_grow():
    names = [name for name in PROGRAMS if name not in RAISE]
    logging.disable(logging.DEBUG)  # pytest keeps each record of torch's own log of compilations until the test ends
    try:
        grew = growth(lambda: capture_all(names, CAPTURES), lambda: capture_all(names, 10 * len(names)))
    finally:
        logging.disable(logging.NOTSET)
    print(f"\n{CAPTURES} captures of {len(names)} fresh programs: {grew:.2f} MiB")
    assert grew <= 5


def capture_all(names, count):
    """Capture fresh programs in turn."""
    for i in range(count):
        namespace, example = fresh(names[i % len(names)])
        compiled = graphwright.compile(namespace["f"], backend="eager")
        compiled(example)
        compiled(example)
        if i % 100 == 99:
            gc.collect()
