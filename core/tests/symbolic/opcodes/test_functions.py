"""Functions made inside."""


def test_defaults_and_closures(same):
    def f(a):
        b = a + 1

        def g(x, y=a, *, z=b, **rest) -> int:
            return x, y, z, rest, b

        return g(1), g(1, 2, z=3, w=4), g.__name__, g.__defaults__, g.__kwdefaults__, g.__qualname__

    same(f, 5)


def test_defaults_are_evaluated_once(same):
    def f():
        def g(x, seen=[]):
            seen.append(x)
            return list(seen)

        return g(1), g(2)

    same(f)


def test_late_binding(same):
    def f():
        fs = []
        for i in range(3):
            fs.append(lambda: i)
        return [g() for g in fs]

    same(f)


def test_closure_over_closure(same):
    def f(n):
        def make(m):
            def inner(k):
                return n, m, k

            return inner

        return make(2)(3)

    same(f, 1)


def test_global_declared_in_nested_function(same):
    def f():
        def setter():
            global NESTED_GLOBAL
            NESTED_GLOBAL = 4

        setter()
        return NESTED_GLOBAL

    same(f)
    globals().pop("NESTED_GLOBAL", None)
