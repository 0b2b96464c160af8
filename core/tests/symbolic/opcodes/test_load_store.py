"""Locals, cells, globals, attributes."""

import builtins

import pytest

from graphwright import graph_breaks as gb

SHARED = 5
COUNT = 0


def test_arguments_and_constants(same):
    def f(a, b):
        c = a, b, 3, None, ..., "text", b"x", 1.5, (1, (2, "y")), frozenset({1})
        return c

    same(f, 1, [2])


def test_unbound_local(same):
    def f(flag):
        if flag:
            x = 1
        return x

    same(f, True)
    same(f, False)


def test_del_local(same):
    def f(a):
        del a
        return a  # noqa: F821

    same(f, 1)


def test_del_unbound_local(same):
    def f(a):
        del a
        del a  # noqa: F821

    same(f, 1)


def test_global_read(same):
    def f():
        return SHARED + 1

    same(f)


def test_global_missing(same):
    def f():
        return no_such_name  # noqa: F821

    same(f)


@pytest.fixture
def count(monkeypatch):
    """Gives the global COUNT back its value, however a test ends."""
    monkeypatch.setitem(globals(), "COUNT", 0)


def test_global_written_and_deleted(translation, count):
    def f():
        global COUNT, FRESH
        COUNT = COUNT + 1
        FRESH = 3
        first = FRESH
        del FRESH
        try:
            FRESH
        except NameError as error:
            return COUNT, first, str(error)

    assert f() == (1, 3, "name 'FRESH' is not defined")
    globals()["COUNT"] = 0
    assert translation(f).result() == (1, 3, "name 'FRESH' is not defined")


def test_global_stores_do_not_reach_the_real_globals(translation, count):
    def f():
        global COUNT
        COUNT = 7
        return COUNT

    assert translation(f).result() == 7
    assert COUNT == 0


def test_guarded_builtin_of_the_user(translation, monkeypatch):
    monkeypatch.setattr(builtins, "of_the_user", 5, raising=False)

    def f():
        return of_the_user, len  # noqa: F821

    run = translation(f)
    assert run.result() == (5, len)
    assert [g.check for g in run.capture.guards if g.source.startswith("B[")] == [("eq", 5)]


def test_del_missing_global(same):
    def f():
        global FRESH
        del FRESH

    same(f)


def test_builtin_guarded_absent_from_globals(translation):
    def f(x):
        return len(x)

    run = translation(f, [1, 2])
    assert run.result() == 2
    assert ("dict_lacks", "len") in [g.check for g in run.capture.guards if g.source == "G"]


def test_builtin_shadowed(same, monkeypatch):
    monkeypatch.setitem(globals(), "len", lambda x: "mine")

    def f(x):
        return len(x)

    assert same(f, [1]) == "mine"
    assert builtins.len([1]) == 1


def test_closure_read_and_written(same):
    def f(a):
        total = 0

        def add(n):
            nonlocal total
            total += n
            return total

        return add(a), add(a), total

    same(f, 2)


def test_cell_of_an_argument(same):
    def f(a):
        def change():
            nonlocal a
            a = a * 10

        change()
        return a

    same(f, 3)


def test_empty_cells(same):
    def f(kind):
        def read():
            return later

        if kind == 0:
            later = 1
            return read()
        if kind == 1:
            return read()
        return later

    same(f, 0)
    same(f, 1)
    same(f, 2)


def test_del_cell(same):
    def f(a, again):
        def read():
            return a  # noqa: F821

        del a
        if again:
            del a  # noqa: F821
        return read()

    same(f, 1, False)
    same(f, 1, True)


def test_outside_closure(same):
    outside = [1, 2]
    number = 3

    def f(a):
        return outside + [number, a]

    same(f, 4)


def test_swap_and_copy(same):
    def f(a, b):
        a, b = b, a
        c = d = a
        x = [1, 2, 3]
        x[0] += 5
        return a, b, c, d, x

    same(f, 1, 2)


@pytest.mark.parametrize("name", ["real", "imag", "missing"])
def test_attributes_of_constants(same, name):
    code = f"def f(x):\n    return x.{name}"
    scope = {}
    exec(code, scope)
    same(scope["f"], 3)


def test_class_statement_breaks(breaks):
    def f():
        class A:
            pass

        return A

    assert "class statement" in breaks(gb.UNSUPPORTED_OPCODE, f).detail


def test_walrus(same):
    def f(a):
        if (n := len(a)) > 1 and (m := n * 2):
            return n, m
        return n

    same(f, [1, 2])
    same(f, [1])
