"""Imports inside functions."""

import builtins

from graphwright import graph_breaks as gb


def test_imports(same):
    def f():
        import math
        import os.path
        import os.path as p
        from math import floor as fl
        from math import pi

        return math.ceil(1.5), fl(2.5), pi, os is not None, p is os.path

    same(f)


def test_missing_module(same):
    def f():
        try:
            import no_such_module_here
        except ImportError as error:
            return type(error).__name__, str(error)
        return no_such_module_here

    same(f)


def test_missing_name(same):
    def f():
        from math import no_such_name

        return no_such_name

    same(f)


def test_relative_import_without_package(same, monkeypatch):
    scope = {"__name__": "alone", "__package__": ""}
    exec("def f():\n    from . import sibling\n    return sibling", scope)
    same(scope["f"])


def test_relative_import(same):
    scope = {"__name__": "graphwright.variables.made_up", "__package__": "graphwright.variables"}
    exec("def f():\n    from . import base\n    from .. import exc\n    return base.__name__, exc.__name__", scope)
    same(scope["f"])


def test_first_import_of_user_module_breaks(breaks, tmp_path, monkeypatch):
    (tmp_path / "fresh_user_module.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)

    def f():
        import fresh_user_module

        return fresh_user_module.VALUE

    assert "fresh_user_module" in breaks(gb.UNKNOWN_CALL, f).detail


def test_replaced_import_breaks(breaks, monkeypatch):
    real = builtins.__import__

    def f():
        import math

        return math.pi

    monkeypatch.setattr(builtins, "__import__", lambda *a, **k: real(*a, **k))
    breaks(gb.DYNAMIC_CODE, f)
