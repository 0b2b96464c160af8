"""Raising, catching, chaining."""

import pytest


class OwnError(Exception):
    pass


class DetailedError(ValueError):
    def __init__(self, code, text="t"):
        super().__init__(code, text)
        self.code = code


RAISES = [
    "raise ValueError",
    "raise ValueError('a', 1)",
    "raise ValueError('a') from None",
    "raise ValueError('a') from KeyError('b')",
    "raise ValueError('a') from KeyError",
    "raise ValueError('a') from 5",
    "raise 5",
    "raise int",
    "raise",
    "raise OwnError('mine')",
    "raise DetailedError(7)",
    "assert 1 == 2",
    "assert 1 == 2, 'message'",
    "assert True, 'no'",
    "[][0]",
    "{}['k']",
    "None.x",
    "1 / 0",
    "int('x')",
]


@pytest.mark.parametrize("statement", RAISES)
def test_raise(same, statement):
    scope = {"OwnError": OwnError, "DetailedError": DetailedError}
    exec(f"def f():\n    {statement}", scope)
    same(scope["f"])


@pytest.mark.parametrize("statement", RAISES)
def test_catch(same, statement):
    scope = {"OwnError": OwnError, "DetailedError": DetailedError}
    source = f"""
def f():
    log = []
    try:
        try:
            {statement}
            log.append("fine")
        except (KeyError, IndexError) as error:
            log.append(("lookup", error.args))
            raise
        except ValueError as error:
            log.append(("value", error.args, type(error).__name__))
            raise TypeError("second")
        except OwnError:
            log.append("own")
        else:
            log.append("else")
        finally:
            log.append("finally")
    except LookupError as error:
        log.append(("outer lookup", error.__context__ is None))
    except TypeError as error:
        log.append(("outer type", error.args, error.__context__ and error.__context__.args, error.__cause__ is None))
    except BaseException as error:
        log.append(("outer", type(error).__name__, error.args))
    return log
"""
    exec(source, scope)
    same(scope["f"])


@pytest.mark.parametrize("statement", ["return 'try'", "raise KeyError(1)", "break", "continue", "pass"])
@pytest.mark.parametrize("last", ["pass", "return 'finally'", "break", "raise ValueError(2)"])
def test_finally(same, statement, last):
    scope = {}
    source = f"""
def f():
    log = []
    for i in range(2):
        try:
            log.append(i)
            {statement}
        finally:
            log.append("finally")
            {last}
    return log
"""
    exec(source, scope)
    same(scope["f"])


def test_name_unbound_after_handler(same):
    def f():
        try:
            raise ValueError
        except ValueError as error:
            pass
        return error  # noqa: F821

    same(f)


def test_implicit_context(same):
    def f():
        try:
            raise KeyError("a")
        except KeyError:
            try:
                raise ValueError("b")
            except ValueError:
                raise TypeError("c")

    same(f)


def test_explicit_reraise_of_the_context(same):
    def f():
        try:
            raise KeyError("a")
        except KeyError as first:
            try:
                raise ValueError("b")
            except ValueError:
                raise first

    same(f)


def test_reraise_in_a_called_function(same):
    def again():
        raise

    def f():
        try:
            raise ValueError("x")
        except ValueError:
            again()

    same(f)


def test_exception_through_calls(same):
    def inner(n):
        if n == 0:
            raise OwnError("deep")
        try:
            inner(n - 1)
        finally:
            log.append(n)

    log = []

    def f():
        seen = []
        try:
            deep(3, seen)
        except OwnError as error:
            return seen, str(error), repr(error)

    def deep(n, seen):
        if n == 0:
            raise OwnError("deep")
        try:
            deep(n - 1, seen)
        finally:
            seen.append(n)

    same(f)


def test_handler_that_is_no_exception_class(same):
    def f():
        try:
            raise ValueError
        except 5:
            pass

    same(f)


def test_matching_by_tuple_variable(same):
    def f(which):
        kinds = (KeyError, which)
        try:
            raise OwnError(1)
        except kinds as error:
            return type(error) is OwnError
        except Exception:
            return "other"

    same(f, OwnError)
    same(f, ValueError)


def test_exception_attributes(same):
    def f():
        try:
            raise DetailedError(3)
        except DetailedError as error:
            error.extra = 4
            return error.code, error.args, error.extra, isinstance(error, ValueError), str(error)

    same(f)


def test_raising_class_whose_call_gives_no_exception(same):
    class Odd(Exception):
        def __new__(cls):
            return 5

    def f():
        raise Odd

    same(f)
