"""Check `tensor` and relation `storages`: the fast way through libtorch, and the Python way, must agree."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
spec = importlib.util.spec_from_file_location("torch_readers", Path(__file__).with_name("torch_readers.py"))
assert spec is not None
assert spec.loader is not None
readers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(readers)


@pytest.fixture(params=["fast", "python"])
def way(native: ModuleType, request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways; the Python way is forced by a reader that disagrees about one sample."""

    def lying(tensor: Any) -> Any:
        reading = readers.read_tensor(tensor)
        return (*reading[:4], not reading[4], *reading[5:]) if reading[0] is torch.int16 else reading

    report = readers.setup(native, readers.read_tensor if request.param == "fast" else lying)
    assert report["tensor_meta"] == (request.param == "fast"), report
    yield request.param
    readers.setup(native)


@pytest.fixture
def guard(native: ModuleType, way: str) -> Callable[..., Any]:
    def make(example: Any, dims: Any = None) -> Callable[[Any], Any]:
        tree = native.GuardTree([("local", 0, [("tensor", example, dims)], [], 0)], 1)

        def check(value: Any) -> Any:
            """True, or the reason."""
            failure = tree.first_failure((value,), readers.setup)
            assert tree.check((value,), readers.setup) == (failure is None)
            return True if failure is None else failure[1][1]

        return check

    return make


def zeros(*size: int, **kwargs: Any) -> Any:
    return torch.zeros(*size, **kwargs)


class Child(torch.Tensor):
    pass


SAME: list[Callable[[], Any]] = [
    lambda: zeros(2, 3),
    lambda: zeros(()),
    lambda: zeros(0, 3),
    lambda: zeros(2, 3).t(),
    lambda: zeros(2, 3, requires_grad=True),
    lambda: torch.nn.Parameter(zeros(2)),
    lambda: zeros(2, 3, device="meta"),
    lambda: zeros(2, 3).to_sparse(),
    lambda: zeros(2, dtype=torch.complex64).conj(),
    lambda: zeros(2, dtype=torch.complex64).conj().imag,
    lambda: zeros(2, dtype=torch.float8_e5m2),
    lambda: zeros(1, 2, 1, 2, 1, 2, 1),
    lambda: zeros(2, 3).as_subclass(Child),
]


@pytest.mark.parametrize("make", SAME)
def test_equal_tensors(guard: Any, make: Callable[[], Any]) -> None:
    assert guard(make())(make()) is True


def test_leaves_and_results_are_not_told_apart(guard: Any) -> None:
    assert guard(zeros(2, requires_grad=True))(zeros(2, requires_grad=True) * 2) is True


def test_every_pair_of_different_tensors(guard: Any) -> None:
    kinds = [*SAME, lambda: zeros(3, 2), lambda: zeros(2, 3, dtype=torch.float64), lambda: zeros(2, 3, 1)]
    for i, one in enumerate(kinds):
        check = guard(one())
        for j, other in enumerate(kinds):
            assert (check(other()) is True) == (i == j), (one(), other())


REASONS = [
    (
        lambda: zeros(2),
        lambda: zeros(2, dtype=torch.int64),
        "dtype mismatch: expected torch.float32, actual torch.int64",
    ),
    (lambda: zeros(2), lambda: zeros(2, requires_grad=True), "requires_grad mismatch: expected False, actual True"),
    (lambda: zeros(2, dtype=torch.complex64), lambda: zeros(2, dtype=torch.complex64).conj(), "conj bit mismatch"),
    (lambda: zeros(2, 3), lambda: 3, "type mismatch: expected <class 'torch.Tensor'>, actual <class 'int'>"),
    (lambda: zeros(2, 3), lambda: torch.nn.Parameter(zeros(2, 3)), "type mismatch"),
]


@pytest.mark.parametrize(("make", "other", "text"), REASONS)
def test_reasons(guard: Any, make: Any, other: Any, text: str) -> None:
    assert text in guard(make())(other())


def test_reasons_name_the_index(guard: Any, way: str) -> None:
    check = guard(zeros(2, 3))
    if way == "fast":
        assert check(zeros(2, 4)) == "size mismatch at index 1: expected 3, actual 4"
        assert check(zeros(3, 2).t()) == "stride mismatch at index 0: expected 3, actual 1"
        assert check(zeros(2)) == "rank mismatch: expected 2, actual 1"
    else:
        assert check(zeros(2, 4)) == "size mismatch: expected (2, 3), actual (2, 4)"


def test_dynamic_dims(guard: Any) -> None:
    check = guard(zeros(2, 3, 4), (0, 2))
    assert check(zeros(5, 3, 7)) is True
    assert check(zeros(7, 3, 5).transpose(0, 2)) is True
    assert check(zeros(5, 4, 7)) is not True
    assert check(zeros(5, 3)) is not True
    assert check(zeros(5, 3, 7, dtype=torch.int8)) is not True
    assert guard(zeros(2, 3), ())(zeros(3, 2).t()) is not True


def test_bad_specs(native: ModuleType, way: str) -> None:
    for example, dims in ((3, None), (zeros(2), [0])):
        with pytest.raises(TypeError, match="check 'tensor' needs"):
            native.GuardTree([("local", 0, [("tensor", example, dims)], [], -1)])
    if way == "fast":
        with pytest.raises(ValueError, match="dynamic dim 5"):
            native.GuardTree([("local", 0, [("tensor", zeros(2), (5,))], [], -1)])


def test_metadata_as_it_was_at_construction(guard: Any) -> None:
    example = zeros(2, 3)
    check = guard(example)
    example.resize_(7)
    example.requires_grad_()
    assert check(zeros(2, 3)) is True
    assert check(example) is not True


def test_changes_in_place_are_seen(guard: Any) -> None:
    tensor = torch.nn.Parameter(zeros(2, 3))
    check = guard(tensor)
    old = tensor.data
    for change, undo in (
        (lambda: setattr(tensor, "data", old.double()), lambda: setattr(tensor, "data", old)),
        (lambda: setattr(tensor, "data", zeros(3, 2).t()), lambda: setattr(tensor, "data", old)),
        (lambda: tensor.requires_grad_(False), lambda: tensor.requires_grad_(True)),
    ):
        assert check(tensor) is True
        change()
        assert check(tensor) is not True
        undo()
    assert check(tensor) is True


def test_the_example_is_not_kept(native: ModuleType, way: str) -> None:
    import weakref

    example = zeros(2, 3)
    died = weakref.ref(example)
    native.GuardTree([("local", 0, [("tensor", example, None)], [], -1)])
    tree = native.GuardTree([("local", 0, [("tensor", example, None)], [], -1)])
    del example
    assert died() is None
    assert tree.alive()


def test_functions_overridden_by_the_user_are_not_called(guard: Any) -> None:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("user code ran")

    assert guard(zeros(2).as_subclass(Loud))(zeros(2).as_subclass(Loud)) is True
    with readers.PassFunctions():
        assert guard(zeros(2))(zeros(2)) is True


def test_dispatch_keys(guard: Any, way: str) -> None:
    if way == "python":
        pytest.skip("the Python reader does not tell them")
    with torch.inference_mode():
        inference = zeros(2)
    assert "dispatch keys" in guard(zeros(2))(inference)
    assert "dispatch keys" in guard(inference)(zeros(2))
    assert guard(inference)(inference) is True
    seen = []
    check = guard(zeros(2))
    torch.vmap(lambda t: seen.append(check(t)) or t)(zeros(3, 2))
    assert "dispatch keys" in seen[0]
    assert check(torch._efficientzerotensor(2)) is not True


def test_wrapper_subclasses_and_nested_tensors(guard: Any, capfd: Any) -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    assert guard(TwoTensor(zeros(2), zeros(2)))(TwoTensor(zeros(2), zeros(2))) is True
    assert guard(TwoTensor(zeros(2), zeros(2)))(TwoTensor(zeros(3), zeros(3))) is not True
    assert "Exception" not in capfd.readouterr().err


def storages(native: ModuleType, groups: tuple[int, ...]) -> Any:
    n = len(groups)
    return native.GuardTree([("local", i, [], [], i) for i in range(n)], n, [("storages", tuple(range(n)), groups)])


@pytest.mark.usefixtures("way")
def test_storages(native: ModuleType) -> None:
    base = zeros(10)
    other = zeros(10)
    both = storages(native, (0, 0, 1))
    assert both.check((base, base[3:], other), readers.setup)
    assert both.check((base[5:], base.view(2, 5)[1], other), readers.setup)
    assert both.check((base.view(torch.int8)[7:], base, other), readers.setup)
    assert not both.check((base, zeros(10), other), readers.setup)
    assert not both.check((base, base, base), readers.setup)
    failing = ((), ("relation", ("storages", (0, 1, 2), (0, 0, 1))))
    assert both.first_failure((base, base, base), readers.setup) == failing
    apart = storages(native, (0, 1, 2))
    assert apart.check((base, other, zeros(0)), readers.setup)
    assert not apart.check((base, other, base.detach()), readers.setup)
    meta = zeros(2, device="meta")
    assert apart.check((meta, zeros(2, device="meta"), zeros(3).to_sparse()), readers.setup)
    parameter = torch.nn.Parameter(base)
    assert both.check((parameter, parameter.data, other), readers.setup)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("seed", range(5))
def test_storages_of_random_groups(native: ModuleType, seed: int) -> None:
    import random

    rng = random.Random(seed)
    for _ in range(50):
        bases = [zeros(4) for _ in range(4)]
        chosen = [rng.randrange(4) for _ in range(6)]
        groups = [rng.randrange(4) for _ in range(6)] if rng.random() < 0.7 else [7 - c for c in chosen]
        values = tuple(bases[c][rng.randrange(3) :] for c in chosen)
        expected = all((chosen[i] == chosen[j]) == (groups[i] == groups[j]) for i in range(6) for j in range(i))
        assert storages(native, tuple(groups)).check(values, readers.setup) == expected


def test_modules_with_shortcuts(native: ModuleType, way: str) -> None:
    """In-place changes of parameters that no dict shows."""
    linear = torch.nn.Linear(3, 4)
    parameters = [("dict_item", k, [("tensor", p, None)], [], i) for i, (k, p) in enumerate(linear._parameters.items())]
    state = (
        "instance_dict",
        None,
        [],
        [("dict_item", "training", [("eq", True)], [], -1), ("dict_item", "_parameters", [("len", 2)], parameters, -1)],
        -1,
    )
    tree = native.GuardTree([("local", 0, [("type", torch.nn.Linear)], [state], -1)], 2)
    weight, data = linear.weight, linear.weight.data

    def agree() -> bool:
        full = tree.first_failure((linear,), readers.setup) is None
        fetched = tree.fetch((linear,), readers.setup)
        assert fetched == ((linear.weight, linear.bias) if full else None) or fetched[0] is linear.weight
        assert (fetched is not None) == full
        return full

    steps = [
        (lambda: None, True),
        (lambda: weight.requires_grad_(False), False),
        (lambda: weight.requires_grad_(True), True),
        (lambda: setattr(weight, "data", data.double()), False),
        (lambda: setattr(weight, "data", data.t().contiguous().t()), False),
        (lambda: setattr(weight, "data", data.clone()), True),
        (lambda: linear.half(), False),
        (lambda: linear.float(), True),
        (lambda: linear.eval(), False),
        (lambda: linear.train(), True),
        (lambda: setattr(linear, "weight", torch.nn.Parameter(zeros(4, 3))), True),
        (lambda: setattr(linear, "weight", torch.nn.Parameter(zeros(5, 3))), False),
        (lambda: setattr(linear, "weight", weight), True),
        (lambda: linear.to("meta"), False),
    ]
    for change, expected in steps:
        change()
        assert agree() is expected
        assert agree() is expected
