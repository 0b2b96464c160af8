"""`with` statements."""

import contextlib

import pytest


class Manager:
    def __init__(self, log, swallow=False):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append("enter")
        return self.log

    def __exit__(self, kind, value, traceback):
        self.log.append(("exit", kind, value and value.args, traceback is None))
        return self.swallow


@pytest.mark.parametrize("statement", ["pass", "return log, 1", "raise KeyError('x')", "break", "continue", "1 / 0"])
@pytest.mark.parametrize("swallow", [False, True])
def test_with(same, statement, swallow):
    scope = {"Manager": Manager}
    source = f"""
def f(swallow):
    log = []
    try:
        for i in range(2):
            with Manager(log, swallow) as got, Manager(log):
                got.append(i)
                {statement}
            log.append("after")
    except Exception as error:
        log.append(type(error).__name__)
    return [x if isinstance(x, (int, str)) else (x[0], x[1] and x[1].__name__, *x[2:]) for x in log]
"""
    if "return" in statement:
        source = source.replace("return log, 1", "return len(log)")
    exec(source, scope)
    same(scope["f"], swallow)


@contextlib.contextmanager
def managed(log, swallow):
    log.append("before")
    try:
        yield "value"
    except KeyError:
        log.append("caught")
        if not swallow:
            raise
    finally:
        log.append("finally")


@pytest.mark.parametrize("kind", [None, KeyError, ValueError, StopIteration])
@pytest.mark.parametrize("swallow", [False, True])
def test_contextmanager(same, kind, swallow):
    def f(swallow):
        log = []
        try:
            with managed(log, swallow) as value:
                log.append(value)
                if kind is not None:
                    raise kind("inside")
            log.append("after")
        except Exception as error:
            log.append((type(error).__name__, error.args))
        return log

    same(f, swallow)


def test_no_context_manager(same):
    class OnlyEnter:
        def __enter__(self):
            return 1

    def plain():
        with 5:
            pass

    def half():
        with OnlyEnter():
            pass

    same(plain)
    same(half)


def test_nullcontext_and_suppress(same):
    def f():
        with contextlib.nullcontext(3) as x, contextlib.suppress(KeyError):
            raise KeyError
        return x

    same(f)


def test_open_blocks_are_known(translation):
    def f(m):
        with m:
            with Manager([]):
                x = 1
            y = 2
        return x + y

    run = translation(f, Manager([]))
    tx = run.tx
    depths = {}
    while tx.step() is None:
        depths[tx.line - f.__code__.co_firstlineno] = max(
            depths.get(tx.line - f.__code__.co_firstlineno, 0), len(tx.with_blocks())
        )
    assert depths[3] == 2
    assert depths[4] == 1
    assert depths[5] == 0
