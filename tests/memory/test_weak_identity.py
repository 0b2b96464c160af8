"""The map that code objects are keys of: by identity, and weakly."""

import gc

from graphwright.weak_identity import WeakIdentityMap


def test_equal_keys_are_different_keys():
    first, second = (eval("lambda x: x").__code__ for _ in range(2))
    assert first == second
    known = WeakIdentityMap()
    known.setdefault(first, 1)
    known.setdefault(second, 2)
    assert (known.get(first), known.get(second)) == (1, 2)
    del first
    gc.collect()
    assert len(known) == 1
    assert known.get(second) == 2


def test_the_first_value_stays():
    key = eval("lambda: 0").__code__
    known = WeakIdentityMap()
    assert known.get(key) is None
    assert key not in known
    assert known.setdefault(key, "first") == "first"
    assert known.setdefault(key, "second") == "first"
    assert key in known
    known.clear()
    assert key not in known
