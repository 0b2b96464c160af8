"""Generates the source text of random programs, with functions that make their arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gwfuzz import expressions, statements
from gwfuzz.choices import Choices, chance, pick

FALLBACKS = {
    "T": "torch.ones(2, 3)", "B": "torch.tensor([True, False, True])", "I": "1", "F": "0.5", "S": "'a'", "K": "True",
    "L": "[1, 2]", "LT": "[torch.ones(2, 3)]", "DT": "{'a': torch.ones(2, 3)}", "DI": "{'a': 1}", "SE": "{1, 2}",
    "P": "(torch.ones(2, 3), 1)", "O": "Box(torch.ones(2, 3), 2)", "FN": "torch.relu", "X": "ValueError",
}  # fmt: skip
_SLOT = re.compile(r"\$([=+~@]?)([A-Z]+)|\$(\d)")
_WALRUS = re.compile(r"\((?:spare|j) := ")
_BLOCK = re.compile(r"^\$(_+)$")
_PARAMETERS = {
    "x": "T", "y": "T", "n": "I", "f": "F", "s": "S", "k": "K", "items": "L", "tensors": "LT", "table": "DT",
    "ints": "DI", "pair": "P", "seen": "SE", "box": "O", "fn": "FN",
}  # fmt: skip

PRELUDE = """\
import collections, contextlib, copy, functools, itertools, math, operator, warnings
import torch
import graphwright
from gwfuzz.support import *

G_N, G_L, G_D, G_T, G_O = 3, [1, 2], {'a': 1}, torch.ones(2, 3), Box(torch.ones(3), 2)
log, count, rest, options = [], 0, (), {}

def make_adder(n):
    return lambda t: t + n

def outside(t):
    return t * G_N - 1

"""


class NoVariable(Exception):
    """A template asks for a variable of a type of which there is none."""


@dataclass
class Scope:
    """The variables that code being generated can see."""

    visible: dict[str, str]
    """Names and types."""
    own: set[str]
    """Those that may be bound."""

    def block(self) -> Scope:
        return Scope(dict(self.visible), set(self.own))

    def of_type(self, kind: str, *, own: bool = False) -> list[str]:
        names = reversed([n for n, t in self.visible.items() if kind in ("ANY", t)])
        return [n for n in names if not own or n in self.own]

    def bind(self, name: str, kind: str) -> None:
        self.visible.pop(name, None)
        self.visible[name] = kind
        self.own.add(name)


@dataclass
class _Filling:
    """A template being filled in."""

    scope: Scope
    depth: int
    first: list[str] = field(default_factory=list)
    bound: list[tuple[str, str]] = field(default_factory=list)
    """What the statement binds."""
    coming: list[tuple[str, str]] = field(default_factory=list)
    """What the line binds for the block after it."""


class ProgramGenerator:
    """Writes one program.

    Args:
        breaks: whether the program may break graphs.
    """

    def __init__(self, choices: Choices, *, breaks: bool) -> None:
        self._choices = choices
        self._breaks = breaks
        self._names = 0
        self._budget = 6 + choices.below(18)

    # ---------------------------------------------------------- expressions

    def expression(self, kind: str, scope: Scope, depth: int) -> str:
        if kind == "R":
            kind = pick(self._choices, ["T", "T", "I", "S", "L", "LT", "DT", "P", "O", "K"])
        for _ in range(4 if depth > 0 else 0):
            try:
                return self._fill(self._expression_template(kind), _Filling(scope, depth))
            except NoVariable:
                continue
        names = scope.of_type(kind)
        return pick(self._choices, names) if names else FALLBACKS[kind]

    def _expression_template(self, kind: str) -> str:
        breaking = expressions.BREAKING.get(kind, ())
        if breaking and self._breaks and chance(self._choices, 12):
            return pick(self._choices, breaking)
        return pick(self._choices, expressions.PLAIN[kind])

    def _fill(self, template: str, filling: _Filling) -> str:
        return _SLOT.sub(lambda match: self._slot(match, filling), template)

    def _slot(self, match: re.Match[str], filling: _Filling) -> str:
        mode, kind, back = match.groups()
        if back:
            return filling.first[int(back) - 1]
        text = self._slot_text(mode, kind, filling)
        filling.first.append(text)
        return text

    def _slot_text(self, mode: str, kind: str, filling: _Filling) -> str:
        scope = filling.scope
        if mode == "":
            return self.expression(kind, scope, filling.depth - 1)
        if mode in "=@":
            names = scope.of_type(kind, own=mode == "@")
            if not names:
                raise NoVariable(kind)
            return pick(self._choices, names)
        names = scope.of_type(kind, own=True)
        if mode == "+" and names and chance(self._choices, 35):
            name = pick(self._choices, names)
        else:
            name = f"v{self._names}"
            self._names += 1
        (filling.coming if mode == "~" else filling.bound).append((name, kind))
        return name

    # ---------------------------------------------------------- statements

    def block(self, scope: Scope, indent: str, size: int, level: int) -> list[str]:
        lines: list[str] = []
        for _ in range(size):
            if self._budget <= 0:
                break
            self._budget -= 1
            lines += self.statement(scope, indent, level)
        return lines or [f"{indent}pass"]

    def statement(self, scope: Scope, indent: str, level: int) -> list[str]:
        if level < 2 and chance(self._choices, 7):
            return self.nested_function(scope, indent, level)
        for _ in range(6):
            inner = scope.block()
            filling = _Filling(inner, 2 + self._choices.below(2))
            template = self._statement_template(level)
            try:
                lines = self._statement_lines(template, filling, indent, level)
            except NoVariable:
                continue
            if "\n" in template and chance(self._choices, 10):
                scope.visible.update(inner.visible)  # names that may be unbound
                scope.own |= inner.own
            for name, kind in filling.bound:
                scope.bind(name, kind)
            if "\ndel $1" in template:
                scope.visible.pop(filling.first[0], None)
            return lines
        return [f"{indent}pass"]

    def _statement_template(self, level: int) -> str:
        if self._breaks and chance(self._choices, 22):
            table = statements.BREAKING
        else:
            table = statements.PLAIN
        template = pick(self._choices, table)
        while level >= 3 and "$_" in template:
            template = pick(self._choices, statements.PLAIN[:16])
        return template

    def _statement_lines(self, template: str, filling: _Filling, indent: str, level: int) -> list[str]:
        lines: list[str] = []
        for line in template.split("\n"):
            block = _BLOCK.match(line)
            if block is None:
                lines.append(indent + self._fill(line, filling))
                while filling.coming:
                    filling.scope.bind(*filling.coming.pop())
            else:
                inner = filling.scope.block()
                for name, kind in filling.bound:
                    inner.bind(name, kind)
                lines += self.block(inner, indent + "    " * len(block[1]), 1 + self._choices.below(3), level + 1)
        return lines

    def nested_function(self, scope: Scope, indent: str, level: int) -> list[str]:
        name, argument, extra = f"v{self._names}", f"v{self._names + 1}", f"v{self._names + 2}"
        self._names += 3
        inner = Scope({**scope.visible, argument: "T", extra: "I"}, {argument, extra})
        deeper = indent + "    "
        lines = [f"{indent}def {name}({argument}, {extra}={self.expression('I', scope, 1)}):"]
        shared = ["count"]
        candidates = [n for n in scope.own if n.startswith("v") or n in ("x", "n", "items")]
        if candidates and chance(self._choices, 50):
            shared.append(pick(self._choices, sorted(candidates)))
            inner.own.add(shared[-1])
        lines += [f"{deeper}nonlocal {', '.join(shared)}", f"{deeper}global G_N, G_T"]
        lines += self.block(inner, deeper, 1 + self._choices.below(3), level + 1)
        lines.append(f"{deeper}return {self.expression('T', inner, 2)}")
        scope.bind(name, "FN")
        return lines

    # ---------------------------------------------------------- the program

    def source(self) -> str:
        text = PRELUDE + "\n".join(self._helper()) + "\n\n" + "\n".join(self._program()) + "\n\n"
        text += "\n".join(line for number in range(3) for line in self._inputs(number))
        try:
            compile(text, "<generated>", "exec")
        except SyntaxError:  # the walrus may not stand in what a comprehension goes through
            text = _WALRUS.sub("(", text)
        return text

    def _helper(self) -> list[str]:
        scope = Scope({"t": "T", "n": "I"}, {"t", "n"})
        budget, self._budget = self._budget, 3
        lines = ["def helper(t, n=1):", "    global G_N, G_T, count"]
        if self._choices.below(2):
            lines += self.block(scope, "    ", 1 + self._choices.below(3), 2)
        self._budget = budget
        body = [line.replace("helper", "opaque") for line in lines[2:]]  # it must not call itself
        return [*lines[:2], *body, "    return t * n + 1"]

    def _program(self) -> list[str]:
        scope = Scope(dict(_PARAMETERS), set(_PARAMETERS))
        parameters = ", ".join(_PARAMETERS)
        lines = ["def make():", "    count, log = 0, []", f"    def program({parameters}, *rest, **options):"]
        indent = "        "
        lines += [f"{indent}nonlocal count", f"{indent}global G_N, G_T"]
        while self._budget > 0:
            lines += self.block(scope, indent, 4, 0)
        lines += [f"{indent}return {self._result(scope)}", "    return program", "program = make()"]
        return lines

    def _result(self, scope: Scope) -> str:
        last = [n for n in list(scope.visible)[-4:] if n not in _PARAMETERS]
        parts = [self.expression("T", scope, 2), *last, self.expression("R", scope, 2)]
        form = self._choices.below(5)
        if form == 3:
            return "{" + ", ".join(f"{i}: {part}" for i, part in enumerate(parts)) + "}"
        if form == 4:
            return parts[0]
        return "(" + ", ".join(parts) + ")"

    # ---------------------------------------------------------- arguments

    def _inputs(self, number: int) -> list[str]:
        lines = [f"def inputs_{number}():", "    x = torch.arange(6.0).reshape(2, 3) / 4 - 0.5", "    y = torch.cos(x)"]
        if number == 0:
            self._common = [pick(self._choices, _GRADIENTS)]
        changes = [line for line in self._common if line]
        if number:
            changes += [pick(self._choices, _CHANGES_OF_TENSORS) for _ in range(1 + self._choices.below(2))]
        lines += [f"    {change}" for change in changes]
        lines += [
            "    n, f, s, k, items, tensors = 2, 1.5, 'ab', True, [3, 1, 2], [x, torch.sin(y.detach())]",
            "    table, ints, pair = {'a': y, 'b': x}, {'a': 1, 'n': 2}, (x, 2)",
            "    seen, box, fn = {1, 4}, Box(y, 2), outside",
            f"    rest, options = (x,), {{'n': {'leaf' if 'leaf' in self._common[0] else 4}}}",
        ]
        if number:
            lines += [f"    {pick(self._choices, _CHANGES)}" for _ in range(self._choices.below(3))]
        arguments = ", ".join(_PARAMETERS)
        return [*lines, f"    return ({arguments}, *rest), {{'o_' + key: value for key, value in options.items()}}", ""]


_GRADIENTS = (
    "", "", "x.requires_grad_()", "leaf = x.requires_grad_(); x, y = leaf * 2, leaf - y", "y.requires_grad_()",
)  # fmt: skip
_CHANGES_OF_TENSORS = (
    "pass", "pass", "pass", "y = x", "y = x.detach()", "x, y = x[:1], y[:1]", "x = torch.ones(4, 3)",
    "x, y = x.double(), y.double()",
    "y = x[0]", "y = y.detach().requires_grad_()", "x = x.detach()", "x = torch.zeros(2, 3)", "y = x.view(-1)[1:4]",
    "x, y = y, x", "x = torch.ones(0, 3)", "x = torch.tensor(1.5)", "y = y.to(torch.bfloat16)", "x = x.t()",
)  # fmt: skip
_CHANGES = (
    "n = 3", "n = 0", "n = -1", "f = 0.25", "s = 'b'", "k = False", "items = []", "items = [0, 5]", "tensors = [y, y]",
    "tensors = [x]", "tensors = []", "table = {'b': x, 'a': x}", "table = {}", "ints = {'n': 1, 'a': 2}",
    "pair = (y, 1)",
    "seen = set()", "box = Deep(x, 1)", "box.n = 5", "box.items = items", "fn = torch.relu", "fn = make_adder(n)",
    "rest = ()", "rest = (y, x)", "pair = Pair(y, 3)", "box.x = x", "box.extra = 1", "n = True", "f = 2",
    "options = {}",
    "n = 2.0", "items = [3, 1, True]", "box.items = [1]", "table = collections.OrderedDict(table)", "fn = box",
    "fn = box.scale", "x.tag = 'q'", "seen = {4, 1}", "box.child = box", "tensors.append(tensors[0])",
)  # fmt: skip
