"""Generators: resuming, delegating, throwing, closing."""

import types

import pytest

from graphwright import graph_breaks as gb


def numbers(n):
    for i in range(n):
        yield i
    return "end"


def test_consumed_by_loops_and_builtins(same):
    def f(n):
        return (
            list(numbers(n)),
            sum(numbers(n)),
            [x for x in numbers(n)],
            tuple(numbers(n)),
            max(numbers(n)),
            1 in numbers(n),
        )

    same(f, 4)


def test_generator_expressions(same):
    def f(items):
        total = sum(x * 2 for x in items if x)
        nested = list((a, b) for a in items for b in (c for c in range(a)))
        return total, nested, any(x > 1 for x in items), all(x > 1 for x in items), dict((x, x) for x in items)

    same(f, [1, 2, 3])


def test_next_with_and_without_default(same):
    def f():
        g = numbers(1)
        first = next(g)
        try:
            next(g)
        except StopIteration as stop:
            value = stop.value
        return first, value, next(g, "default"), next(numbers(0), None)

    same(f)


def test_send_and_return_value(same):
    def averager():
        total, count, average = 0, 0, None
        while True:
            value = yield average
            if value is None:
                return total
            total += value
            count += 1
            average = total / count

    def f():
        g = averager()
        out = [g.send(None), g.send(10), g.send(20)]
        try:
            g.send(None)
        except StopIteration as stop:
            out.append(stop.value)
        return out

    same(f)


def test_send_before_start(same):
    def f():
        return numbers(1).send(5)

    same(f)


def test_laziness_interleaves(same):
    def f():
        log = []

        def produce():
            for i in range(3):
                log.append(("produce", i))
                yield i
            log.append("done")

        for x in produce():
            log.append(("consume", x))
        return log

    same(f)


def test_yield_from(same):
    def inner():
        got = yield 1
        yield got
        return "inner result"

    def outer():
        result = yield from inner()
        yield result
        rest = yield from [7, 8]
        yield rest
        yield from numbers(2)

    def f():
        g = outer()
        out = [next(g), g.send("sent")]
        return out + list(g)

    same(f)


@pytest.mark.parametrize("kind", [ValueError, KeyError, StopIteration, GeneratorExit])
@pytest.mark.parametrize("form", ["kind", "kind('m')", "kind, 'm'", "kind, kind('v')", "kind, ('a', 'b')"])
def test_throw(same, kind, form):
    source = f"""
def f():
    log = []
    def inner():
        try:
            yield 1
        except KeyError as error:
            log.append(("inner caught", error.args))
            yield 2
        finally:
            log.append("inner finally")
        return "inner end"
    def outer():
        try:
            log.append((yield from inner()))
            yield 3
        except ValueError as error:
            log.append(("outer caught", error.args))
            yield 4
    g = outer()
    log.append(next(g))
    try:
        log.append(g.throw({form}))
        log.append(list(g))
    except BaseException as error:
        log.append((type(error).__name__, error.args))
    return log
"""
    scope = {"kind": kind}
    exec(source, scope)
    same(scope["f"])


@pytest.mark.parametrize("form", ["5", "int", "ValueError(), 1", ""])
def test_bad_throw(same, form):
    source = f"def f():\n    def g():\n        yield 1\n    h = g()\n    next(h)\n    h.throw({form})"
    scope = {}
    exec(source, scope)
    try:
        scope["f"]()
    except TypeError as error:
        if "expected" in str(error):
            pytest.skip("the message of argument clinic is not imitated")
    same(scope["f"])


def test_throw_before_start_and_after_end(same):
    def f():
        out = []
        for consumed in (False, True):
            g = numbers(1)
            if consumed:
                list(g)
            try:
                g.throw(ValueError("x"))
            except ValueError as error:
                out.append(error.args)
            out.append(list(g))
        return out

    same(f)


@pytest.mark.parametrize("body", ["pass", "raise", "return", "raise ValueError('v')"])
def test_close(same, body):
    source = f"""
def f():
    log = []
    def inner():
        try:
            yield 1
        except GeneratorExit:
            log.append("exit")
            {body}
        finally:
            log.append("finally")
    def outer():
        yield from inner()
        log.append("after")
    for make in (inner, outer):
        g = make()
        next(g)
        try:
            log.append(g.close())
            log.append(g.close())
        except Exception as error:
            log.append((type(error).__name__, error.args))
    return log
"""
    scope = {}
    exec(source, scope)
    same(scope["f"])


def test_close_refused_by_the_generator(same):
    def f():
        def g():
            while True:
                try:
                    yield 1
                except GeneratorExit:
                    yield 2
                    return

        h = g()
        next(h)
        try:
            h.close()
        except RuntimeError as error:
            return error.args, list(h)

    same(f)


def test_stop_iteration_raised_inside_becomes_runtime_error(same):
    def f():
        def g():
            yield 1
            raise StopIteration("inside")

        return list(g())

    same(f)


def test_reentry(same):
    def f():
        def g():
            yield next(h)

        h = g()
        return next(h)

    same(f)


def test_exception_being_handled_belongs_to_the_generator(same):
    def f():
        def g():
            try:
                raise KeyError("in generator")
            except KeyError:
                yield 1
                raise ValueError("chained")

        h = g()
        next(h)
        try:
            raise TypeError("outside")
        except TypeError:
            next(h)

    same(f)


def test_closures_are_shared_with_the_frame(same):
    def f():
        n = 0

        def g():
            nonlocal n
            while n < 3:
                n += 1
                yield n

        out = []
        for x in g():
            out.append((x, n))
            n += 1
        return out

    same(f)


def test_iterator_protocol(same):
    def f():
        g = numbers(2)
        return iter(g) is g, g.__next__(), g.__iter__() is g, g.__name__, isinstance(g, types.GeneratorType)

    same(f)


def test_delegating_to_a_user_iterator(same):
    class Sink:
        def __init__(self):
            self.got = []

        def __iter__(self):
            return self

        def __next__(self):
            return "next"

        def send(self, value):
            self.got.append(value)
            if value == "stop":
                raise StopIteration("result")
            return value

        def throw(self, kind, value=None, traceback=None):
            return ("thrown", kind)

    def f():
        def g(sink):
            result = yield from sink
            yield result

        h = g(Sink())
        return next(h), h.send(1), h.send("stop")

    same(f)


def test_left_inside_try_breaks_where_it_was_made(breaks, translation):
    def f():
        def g():
            try:
                yield 1
            finally:
                pass

        unrelated = 1
        h = g()
        return next(h) + unrelated

    breaks(gb.GENERATOR_ESCAPES, f)
    first = translation(f)
    with pytest.raises(Exception, match="GW0013"):
        first.tx.translate()
    again = translation(f)
    stopped = again.tx.translate(first.tx.broken_step)
    assert stopped.instruction.opname == "CALL"
    assert stopped.instruction.line == f.__code__.co_firstlineno + 8


def test_left_outside_of_try_is_fine(same):
    def f():
        return next(x for x in numbers(10) if x > 3)

    same(f)


def test_coroutines_break(breaks):
    async def later():
        return 1

    def f():
        return later()

    assert "later" in breaks(gb.GENERATOR_ESCAPES, f).detail
