"""Numbers, text, attributes and class checks are captured and agree with Python."""

import collections
import collections.abc
import dataclasses
import enum
import math
import operator
import typing

import pytest

pytestmark = pytest.mark.e2e


class Money:
    def __init__(self, amount):
        self.amount = amount

    def __int__(self):
        return int(self.amount)

    def __float__(self):
        return float(self.amount)

    def __abs__(self):
        return Money(abs(self.amount))

    def __round__(self, digits=None):
        return round(self.amount, digits)

    def __divmod__(self, other):
        return ("divmod", other)

    def __add__(self, other):
        if isinstance(other, Money):
            return Money(self.amount + other.amount)
        return NotImplemented

    def __radd__(self, other):
        return ("radd", other, self.amount)

    def __iadd__(self, other):
        self.amount += 100
        return self

    def __lt__(self, other):
        return self.amount < other.amount

    def __eq__(self, other):
        return isinstance(other, Money) and self.amount == other.amount

    __hash__ = None

    def __contains__(self, item):
        return item == self.amount

    def __getitem__(self, key):
        return (self.amount, key)

    def __neg__(self):
        return -self.amount

    def __repr__(self):
        return f"Money({self.amount})"

    def __format__(self, spec):
        return f"<{spec}:{self.amount}>"

    def __len__(self):
        return self.amount

    def __index__(self):
        return self.amount

    def __bool__(self):
        return self.amount > 3


class Child(Money):
    def __radd__(self, other):
        return ("child first", self.amount)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Record:
    a: int
    b: list


class Items(list):
    pass


NUMBERS = [
    lambda: int("12") + int(3.9) + int("ff", 16),
    lambda: int(Money(3)),
    lambda: int([1]),
    lambda: int("x"),
    lambda: int(),
    lambda: float("1.5") + float(2),
    lambda: float(Money(3)),
    lambda: float("nan") == float("nan"),
    lambda: float([]),
    lambda: complex(1, 2) * 2,
    lambda: bool([]) or bool([0]),
    lambda: bool(Money(1)),
    lambda: abs(-3) + abs(-2.5),
    lambda: abs(Money(-3)).amount,
    lambda: abs("a"),
    lambda: round(2.567, 2),
    lambda: round(2.5),
    lambda: round(Money(2.5)),
    lambda: round("a"),
    lambda: divmod(17, 5),
    lambda: divmod(Money(1), 2),
    lambda: divmod(1, "a"),
    lambda: divmod(1, 0),
    lambda: pow(2, 10),
    lambda: pow(2, 10, 7),
    lambda: 2**-1,
    lambda: 1 / 0,
    lambda: 7 // 2 + 7 % 3 - (1 << 4) + (5 & 6 | 8 ^ 1),
    lambda: math.sqrt(2) + math.floor(2.5) + math.ceil(2.1),
    lambda: math.sqrt(-1),
    lambda: math.sqrt("a"),
    lambda: math.prod([1, 2, 3]),
    lambda: math.gcd(12, 18),
    lambda: math.sqrt(Money(4)),
    lambda: math.isclose(1.0, 1.0 + 1e-12),
    lambda: math.inf > 3,
    lambda: hex(255) + bin(3) + oct(8) + chr(97) + str(ord("a")),
    lambda: operator.index(Money(3)),
    lambda: operator.index(1.5),
    lambda: operator.add(1, 2) + operator.neg(3),
    lambda: operator.concat([1], [2]),
    lambda: (1).bit_length() + int.from_bytes(b"\x01\x02", "big"),
    lambda: (3.0).is_integer(),
    lambda: Money(1) + Money(2) == Money(3),
    lambda: 5 + Money(2),
    lambda: Money(2) + 5,
    lambda: Money(1) + Child(2),
    lambda: -Money(3),
    lambda: ~Money(3),
    lambda: [1, 2, 3, 4][Money(2)],
    lambda: [0] * Money(3),
    lambda: "ab" * Money(2),
    lambda: [10, 20, 30, 40][Money(1) : Money(3)],
    lambda: list(range(Money(3))),
    lambda: 3 in Money(3),
    lambda: Money(3)["k"],
    lambda: len(Money(3)),
    lambda: len(Money(-1)),
    lambda: sorted([Money(3), Money(1), Money(2)])[0].amount,
    lambda: max([Money(3), Money(5)]).amount,
    lambda: [Money(1), Money(2)] == [Money(1), Money(2)],
    lambda: [Money(1), Money(2)].index(Money(2)),
    lambda: [Money(1)].remove(Money(4)),
    lambda: (Money(1), 1) < (Money(2), 0),
    lambda: {Money(1): 2},
    lambda: sum([Money(1), Money(2)], Money(0)).amount,
    lambda: (m := Money(1), m.__iadd__(1), m.amount)[2],
]

TEXT = [
    lambda: repr([1, "a", None, (2.5,), {"k": [True]}, {1}, frozenset()]),
    lambda: str([Money(1)]) + repr({"m": Money(2)}),
    lambda: f"{Money(1)} {Money(1)!r} {Money(1):>5} {[1]!s:>6} {3.14159:.2f} {'a':^5}|{7:03d}",
    lambda: f"{[1]:>5}",
    lambda: f"{None} {True} {Color.RED} {Level.HIGH} {Level.HIGH:d}",
    lambda: "{} {0}".format(1),  # noqa: F525  an error is what is tested
    lambda: "{} {}".format(1, Money(2)),
    lambda: "{0.amount} {1[0]} {k!r:>4}".format(Money(5), [7], k="z"),
    lambda: "{0.nothing}".format(Money(5)),
    lambda: "%s %r %05d %.2f" % (Money(1), "a", 3, 2.5),
    lambda: "%s" % [1, 2],
    lambda: "%(a)s" % {"a": Money(3)},
    lambda: "%d" % "a",
    lambda: "no place" % 3,  # noqa: F507  an error is what is tested
    lambda: ",".join(map(str, [1, 2])),
    lambda: ",".join([1]),
    lambda: "a,b".split(",") + "x".rjust(3).split(),
    lambda: "abc"[1] + "abc"[::-1] + "abc"[-1:],
    lambda: "abc"[7],
    lambda: "a" in "abc",
    lambda: 1 in "abc",
    lambda: "a" + 1,
    lambda: "a" + [],
    lambda: ascii("é"),
    lambda: str(b"ab", "ascii"),
    lambda: str(object=3),
    lambda: str(ValueError("x", 1)) + repr(KeyError("k")) + str(KeyError("k")),
    lambda: repr(Record(1, [2])),
    lambda: str(int) + repr(Color) + repr(list[int]) + str(Money),
    lambda: repr(slice(1, 2)) + repr(range(3)),
    lambda: "abc".upper().startswith("A"),
    lambda: "a-b".partition("-"),
    lambda: hash("a") == hash("a"),
    lambda: hash((1, 2)) == hash((1, 2)),
    lambda: hash([1]),
    lambda: b"ab" + bytes([1]),
]

CHECKS = [
    lambda: isinstance(1, int) and isinstance(True, int) and not isinstance("a", (int, float)),
    lambda: isinstance([], collections.abc.Sequence) and isinstance({}, collections.abc.Mapping),
    lambda: isinstance(Money(1), collections.abc.Sized) and isinstance(1, collections.abc.Hashable),
    lambda: isinstance(1, int | None) and isinstance(None, int | None),
    lambda: isinstance([], list[int]),
    lambda: isinstance(1, 5),
    lambda: isinstance(Child(1), Money) and not isinstance(Money(1), Child),
    lambda: issubclass(Child, Money) and issubclass(bool, (str, int)),
    lambda: issubclass(1, int),
    lambda: isinstance(len, type(len)) and isinstance(lambda: 1, typing.Callable),
    lambda: isinstance(Color.RED, Color) and isinstance(Level.LOW, int),
    lambda: type(1) is int and type([]) is list and type(Money(1)) is Money and type(Money) is type,
    lambda: operator.eq(type([]), list) and type(1).__name__,
    lambda: type(Money(1))(4).amount,
    lambda: callable(len) and callable(Money) and not callable(Money(1)) and callable(lambda: 1),
    lambda: hasattr(Money(1), "amount") and not hasattr(Money(1), "nope") and hasattr([], "append"),
    lambda: getattr(Money(4), "amount") + getattr(Money(4), "nope", 3),
    lambda: getattr(Money(4), "nope"),
    lambda: getattr(Money(4), 5),
    lambda: getattr([], "append")(1),
    lambda: (m := Money(1), setattr(m, "x", 5), m.x, delattr(m, "x"), hasattr(m, "x"))[2:],
    lambda: vars(Money(7)),
    lambda: vars(5),
    lambda: Color(1) is Color.RED and Color["BLUE"].value,
    lambda: Color(9),
    lambda: [c.name for c in Color] + [len(Color)],
    lambda: Level.LOW < Level.HIGH and Level.LOW + 1,
    lambda: {Color.RED: 1}[Color.RED] + {Level.LOW: 2}[1],
    lambda: (None is None, None is not None, operator.is_([], []), () == (), 1 == 1.0, operator.is_(1, True)),
    lambda: 1 < "a",
    lambda: None < None,
    lambda: {1: 2} < {},
    lambda: [] + (),
    lambda: 1 + None,
    lambda: (1).foo,
    lambda: len(5),
    lambda: -[],
    lambda: not [],
    lambda: [1, *(2, 3), *{4: 5}],
    lambda: {**{"a": 1}, "b": 2, **{"a": 3}},
    lambda: dict(a=1, **{"a": 2}),
    lambda: [*5],
    lambda: Items([1, 2]) == [1, 2] and Items([3]) + [4],
    lambda: (x := Items([1, 2]), x.append(3), len(x), x[0], list(x), 2 in x)[2:],
    lambda: dataclasses.replace(Record(1, [2]), a=5).a,
    lambda: Record(1, [2]) == Record(1, [2]),
    lambda: dataclasses.asdict(Record(1, [2])),
    lambda: collections.namedtuple.__name__,
]


@pytest.mark.parametrize("number", range(len(NUMBERS)))
def test_numbers(captures, number):
    captures(NUMBERS[number])


@pytest.mark.parametrize("number", range(len(TEXT)))
def test_text(captures, number):
    captures(TEXT[number])


@pytest.mark.parametrize("number", range(len(CHECKS)))
def test_checks(captures, number):
    captures(CHECKS[number])
