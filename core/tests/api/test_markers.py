from __future__ import annotations

import functools
import gc
import operator
import weakref

import pytest
import torch

import graphwright
from graphwright import _native, dim_marks, markers
from graphwright.exc import CompileArgumentError, CompileValueError


def plain(x: int) -> int:
    return x + 1


def test_disable_marks_a_wrapper_and_not_the_function() -> None:
    marked = graphwright.disable(plain, reason="because")
    assert marked(1) == 2
    assert marked.__name__ == "plain"
    assert markers.why_disabled(plain) is None
    mark = markers.why_disabled(marked)
    assert mark == markers.DisableMark("because", True, "graphwright.disable")


def test_a_wrapper_of_a_disabled_function_is_not_marked() -> None:
    marked = graphwright.disable(plain)
    assert markers.why_disabled(functools.wraps(marked)(lambda x: marked(x))) is None


def test_disable_is_recursive_unless_told() -> None:
    seen = graphwright.disable(_native.is_capturing)
    assert seen() is True
    assert graphwright.disable(_native.is_capturing, recursive=False)() is False
    assert _native.is_capturing() is False


def test_disable_of_a_generator_function_marks_the_function() -> None:
    def numbers() -> object:
        yield 1

    assert graphwright.disable(numbers) is numbers
    assert markers.why_disabled(numbers) is not None


@pytest.mark.parametrize("target", [plain, None, torch.nn.Linear(1, 1)])
def test_disable_checks_its_arguments(target: object) -> None:
    with pytest.raises(CompileArgumentError, match=r"recursive must be True or False, not 'slow'; .* reason="):
        graphwright.disable(target, "slow")  # type: ignore[arg-type]
    with pytest.raises(CompileArgumentError, match="reason must be text or None, not 3"):
        graphwright.disable(target, reason=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limits", "error", "message"),
    [
        ({"min": 5, "max": 2}, CompileValueError, "no size is at least 5 and at most 2"),
        ({"min": -1}, CompileValueError, "min is -1, but no size is negative"),
        ({"max": "8"}, CompileArgumentError, "max must be an int or None, not '8'"),
    ],
)
def test_limits_of_a_marked_size_are_checked(limits: dict[str, int], error: type[Exception], message: str) -> None:
    tensor = torch.ones(3)
    with pytest.raises(error, match=message):
        graphwright.mark_dynamic(tensor, 0, **limits)
    assert dim_marks.dynamic_dims(tensor) == frozenset()


def test_disable_ends_with_an_exception() -> None:
    with pytest.raises(ZeroDivisionError):
        graphwright.disable(lambda: 1 / 0)()
    assert _native.is_capturing() is False


def test_disable_decorates_methods_of_all_kinds() -> None:
    class Thing:
        @graphwright.disable
        def method(self, x: int) -> tuple[object, int]:
            return self, x

        @graphwright.disable(reason="r")
        @classmethod
        def of_class(cls, x: int) -> tuple[object, int]:
            return cls, x

        @staticmethod
        @graphwright.disable()
        def static(x: int) -> int:
            return x

    thing = Thing()
    assert thing.method(1) == (thing, 1)
    assert thing.of_class(2) == (Thing, 2)
    assert thing.static(3) == 3
    assert graphwright.disable(thing.method)(4) == (thing, 4)


def test_disable_a_class_marks_what_its_instances_run() -> None:
    @graphwright.disable
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    assert markers.why_disabled(Net.forward) is not None
    assert Net()(torch.ones(1)).item() == 2
    with pytest.raises(CompileArgumentError, match="cannot be called"):
        graphwright.disable(type("Data", (), {}))


def test_disable_a_module_gives_another_face() -> None:
    net = torch.nn.Linear(2, 2)
    face = graphwright.disable(net)
    x = torch.ones(1, 2)
    assert isinstance(face, torch.nn.Linear)
    assert face.weight is net.weight
    assert torch.equal(face(x), net(x))
    assert markers.why_disabled(face.forward.__func__) is not None


@pytest.mark.parametrize("use", [graphwright.disable, graphwright.allow_in_graph, graphwright.assume_constant_result])
def test_what_cannot_be_called_is_refused(use: object) -> None:
    with pytest.raises(TypeError, match="must be callable, not 3"):
        use(3)  # type: ignore[operator]


def test_torch_disable_is_honoured() -> None:
    recursive = torch.compiler.disable(plain, reason="slow")
    flat = torch.compiler.disable(plain, recursive=False)
    assert markers.why_disabled(recursive) == markers.DisableMark("slow", True, "torch.compiler.disable")
    assert markers.why_disabled(flat) == markers.DisableMark("", False, "torch.compiler.disable")
    assert markers.why_disabled(functools.wraps(recursive)(lambda x: recursive(x))) is None
    assert markers.why_disabled(plain) is None


def test_allow_in_graph() -> None:
    def first() -> None: ...
    def second() -> None: ...
    def third() -> None: ...

    assert graphwright.allow_in_graph(first) is first
    graphwright.allow_in_graph([second])
    torch.compiler.allow_in_graph(third)
    assert all(map(markers.is_allowed_in_graph, (first, second, third)))
    assert not markers.is_allowed_in_graph(plain)


def test_assume_constant_result() -> None:
    def ours() -> None: ...
    def theirs() -> None: ...

    assert graphwright.assume_constant_result(ours) is ours
    torch.compiler.assume_constant_result(theirs)
    assert markers.has_constant_result(ours)
    assert markers.has_constant_result(theirs)
    assert not markers.has_constant_result(plain)


def test_substitute_in_graph() -> None:
    def count_of(a: object, b: object, /) -> int:
        return 0

    assert markers.substitute_of(operator.countOf) is None
    assert graphwright.substitute_in_graph(operator.countOf)(count_of) is count_of
    found = markers.substitute_of(operator.countOf)
    assert found is not None
    assert (found.function, found.can_constant_fold_through) == (count_of, False)
    with pytest.raises(CompileValueError, match="has a stand-in already"):
        graphwright.substitute_in_graph(operator.countOf)(count_of)


def test_substitute_with_other_parameters_is_refused() -> None:
    with pytest.raises(TypeError, match=r"give it the same parameters"):
        graphwright.substitute_in_graph(plain)(lambda a, b: a)


def test_torch_substitute_is_honoured_and_torch_own_ones_are_not_used() -> None:
    def original(x: int) -> int:
        return x

    @torch.compiler.substitute_in_graph(original)
    def stand_in(x: int) -> int:
        return -x

    found = markers.substitute_of(original)
    assert found is not None
    assert found.function(3) == -3
    assert markers.substitute_of(functools.reduce) is None


def test_graph_break_and_queries() -> None:
    import torch._dynamo

    assert graphwright.graph_break("here") is None
    assert markers.is_graph_break(graphwright.graph_break)
    assert markers.is_graph_break(torch._dynamo.graph_break)
    assert not markers.is_graph_break(plain)
    assert graphwright.is_compiling() is False
    assert markers.is_compiling_query(graphwright.is_compiling)
    assert markers.is_compiling_query(torch.compiler.is_compiling)


def test_marks_keep_nothing_alive() -> None:
    def mine() -> None: ...

    for mark in (graphwright.allow_in_graph, graphwright.assume_constant_result, graphwright.disable):
        mark(mine)
    gone = weakref.ref(mine)
    del mine, mark
    gc.collect()
    assert gone() is None


def test_dimension_marks_are_torch_own() -> None:
    import torch._dynamo

    ours, theirs = torch.ones(2, 3, 4), torch.ones(2, 3, 4)
    graphwright.mark_dynamic(ours, 0, min=2, max=9)
    graphwright.maybe_mark_dynamic(ours, [1])
    graphwright.mark_static(ours, 2)
    torch._dynamo.mark_dynamic(theirs, 0, min=2, max=9)
    torch._dynamo.maybe_mark_dynamic(theirs, 1)
    torch._dynamo.mark_static(theirs, 2)
    for tensor in (ours, theirs):
        assert dim_marks.dynamic_dims(tensor) == {0}
        assert dim_marks.maybe_dynamic_dims(tensor) == {1}
        assert dim_marks.static_dims(tensor) == {2}
        assert dim_marks.dim_ranges(tensor) == {0: (0, 2, 9)}
    assert set(vars(ours)) == set(vars(theirs))


def test_wrong_dimension_marks_are_refused() -> None:
    with pytest.raises(TypeError, match="expected a tensor, not 3"):
        graphwright.mark_dynamic(3, 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no dimension 2; count from 0"):
        graphwright.mark_static(torch.ones(2, 2), 2)
    with pytest.raises(TypeError, match="index must be an int"):
        graphwright.mark_unbacked(torch.ones(2), [None])  # type: ignore[list-item]
