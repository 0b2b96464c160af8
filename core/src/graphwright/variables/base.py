"""The base class of all variables, and the protocols through which variables see the rest of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import graphwright.graph_breaks as gb
from graphwright.exc import NotConstant, NotProxyable, ObservedException

if TYPE_CHECKING:
    from graphwright.effects import Effects
    from graphwright.exc import GraphBreak
    from graphwright.graph.output_graph import OutputGraph
    from graphwright.graph_breaks import GraphBreakKind
    from graphwright.guards.guard_set import GuardSet
    from graphwright.settings import Settings
    from graphwright.sources import Source, SourceRoots

Args = Sequence["VariableTracker"]
Kwargs = dict[str, "VariableTracker"]


class Emitter(Protocol):
    """What a variable needs to write the code that builds it (see `graphwright.codegen`)."""

    def __call__(self, value: VariableTracker) -> None:
        """Push the value; a mutable value is built once and remembered."""

    def op(self, name: str, *args: Any) -> None:
        """Emit one operation of `graphwright.bytecode.assemble.CodeBuilder`."""

    def load_constant(self, value: object) -> None:
        """Push an object that lives with the code."""

    def load_output(self, node: Any) -> None:
        """Push what the graph gives for a node."""

    def load_class(self, cls: type) -> None:
        """Push a class; one that user code may drop is held weakly."""

    def load_source(self, source: Source) -> None:
        """Push what a source gave at entry."""

    def remember(self, value: VariableTracker) -> None:
        """Store the top of stack as the value of a variable and leave it on the stack."""


class Wrapper(Protocol):
    """What makes variables of Python values (see `graphwright.wrap`)."""

    def wrap(self, tx: Tx, value: Any, source: Source | None = None) -> VariableTracker:
        """The variable of a value."""

    def lazy(self, tx: Tx, value: Any, source: Source) -> VariableTracker:
        """A variable of a value nobody looked at yet."""

    def wrap_trusted(self, tx: Tx, value: Any, source: Source) -> VariableTracker:
        """The variable of what a trusted module holds."""


class Capture(Protocol):
    """What one capture shares between all its frames."""

    output: OutputGraph
    effects: Effects
    guards: GuardSet
    roots: SourceRoots
    settings: Settings
    wrapper: Wrapper
    is_whole: bool

    def module_scope(self, module: VariableTracker) -> AbstractContextManager[None]:
        """While entered, graph nodes belong to a call of this nn.Module."""


class Tx(Protocol):
    """The translator of one frame, as variables see it."""

    capture: Capture

    def wrap(self, value: Any, source: Source | None = None) -> VariableTracker:
        """The variable of a value; installs the guards that its kind needs."""

    def lazy(self, value: Any, source: Source) -> VariableTracker:
        """A variable of a value nobody looked at yet: no guard until somebody does."""

    def call(self, fn: VariableTracker, args: Args, kwargs: Kwargs | None = None) -> VariableTracker:
        """Call as Python would."""

    def inline(self, fn: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Translate the body of a Python function in place."""

    def zero_arg_super(self) -> tuple[VariableTracker, VariableTracker]:
        """The class and the object that `super()` without arguments means in this frame."""

    def graph_break(self, kind: GraphBreakKind, detail: str) -> NoReturn:
        """Stop capture here."""

    def holds(self, value: VariableTracker) -> bool:
        """Whether a stack or a variable of any frame holds a value."""

    def is_in_try(self) -> bool:
        """Whether an exception raised here would meet a handler of the traced program, other than that of a `with`."""

    def is_in_cleanup(self) -> bool:
        """Whether an exception raised here would meet any handler: of a `with`, a `finally` or an `except`."""

    def may_be_swallowed(self) -> bool:
        """Whether a context manager of the traced program's may end an exception raised here."""

    def is_in_finally(self) -> bool:
        """Whether an exception raised here would run a `finally` clause of the traced program, and go on."""

    def break_signal(self, kind: GraphBreakKind, detail: str) -> GraphBreak:
        """What `graph_break` would raise here, to be raised later."""

    def raise_(self, kind: type[BaseException], *args: Any) -> NoReturn:
        """Raise an exception in the traced program; args are constants or variables."""


class VariableTracker:
    """One Python value as the translator knows it.

    A variable with a `source` exists outside the frame and can be read again through it; one without was made by the
    traced program. The defaults below describe an object that supports nothing.
    """

    source: Source | None = None
    varies: bool = False
    """Whether it is a number that differs from call to call; asking for its value fixes it."""
    has_weak_reference: bool = False
    """Whether the traced program made a weak reference to it, and so sees when it goes."""

    def realize(self) -> VariableTracker:
        """The variable itself; a lazy one looks at its value first."""
        return self

    def python_type(self) -> type:
        """The type of the value."""
        raise NotImplementedError(type(self).__name__)

    def type_name(self) -> str:
        """The name of the type, for messages."""
        return self.python_type().__name__

    def release(self) -> None:
        """Let go of what it leads to, when the capture has ended: objects of the program may lead to each other."""

    # ---------------------------------------------------------- constants, graph

    def is_python_constant(self) -> bool:
        """Whether the value is an immutable Python value known now."""
        return False

    def as_python_constant(self) -> Any:
        """The value, where it is an immutable one known now.

        Raises:
            NotConstant: it is not.
        """
        raise NotConstant(f"{self} is not a constant")

    def as_proxy(self) -> Any:
        """The value as an argument of an fx node.

        Raises:
            NotProxyable: it cannot stand in a graph.
        """
        if self.is_python_constant():
            return self.as_python_constant()
        raise NotProxyable(f"{self} cannot be an argument of a graph node")

    # ---------------------------------------------------------- data model

    def getattr(self, tx: Tx, name: str) -> VariableTracker:
        """`self.name`."""
        tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"attribute {name!r} of a {self.type_name()}")

    def read_slot(self, tx: Tx, descriptor: Any) -> VariableTracker:
        """What a descriptor written in C gives for an object: `__slots__` members, `__dict__`, `__class__`."""
        tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"attribute {descriptor.__name__!r} of a {self.type_name()}")

    def setattr(self, tx: Tx, name: str, value: VariableTracker) -> None:
        """`self.name = value`."""
        tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"setting attribute {name!r} of a {self.type_name()}")

    def delattr(self, tx: Tx, name: str) -> None:
        """`del self.name`."""
        tx.graph_break(gb.UNKNOWN_ATTRIBUTE, f"deleting attribute {name!r} of a {self.type_name()}")

    def call(self, tx: Tx, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`self(*args, **kwargs)`; arguments may be lazy."""
        tx.graph_break(gb.UNKNOWN_CALL, f"calling a {self.type_name()}")

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`self.name(*args, **kwargs)`; special methods are looked up on the type."""
        return tx.call(self.getattr(tx, name), args, kwargs)

    def iterate(self, tx: Tx) -> VariableTracker:
        """`iter(self)`: a variable with `next_item`."""
        tx.graph_break(gb.UNKNOWN_CALL, f"iterating a {self.type_name()}")

    def next_item(self, tx: Tx) -> VariableTracker:
        """`next(self)`; raises StopIteration in the traced program at the end."""
        tx.raise_(TypeError, f"'{self.type_name()}' object is not an iterator")

    def unpack(self, tx: Tx) -> list[VariableTracker]:
        """All items, as `list(self)` would see them; items may be lazy."""
        return list(drain(tx, self.iterate(tx)))

    def truth(self, tx: Tx) -> bool:
        """`bool(self)`."""
        if self.is_python_constant():
            return bool(self.as_python_constant())
        return True

    def length(self, tx: Tx) -> VariableTracker:
        """`len(self)`."""
        tx.raise_(TypeError, f"object of type '{self.type_name()}' has no len()")

    def hash_key(self, tx: Tx) -> Any:
        """A key that is equal for two variables exactly when Python would find them equal as dict keys."""
        tx.graph_break(gb.UNKNOWN_COMPARISON, f"hash of a {self.type_name()}")

    # ---------------------------------------------------------- codegen

    def reconstruct(self, emit: Emitter) -> None:
        """Emit code that pushes the value. Called only for values that have no source."""
        raise NotReconstructible(self)

    def replay(self, emit: Emitter) -> None:
        """Emit code that repeats on the real object what the traced program did to it."""
        raise NotReconstructible(self)

    def __repr__(self) -> str:
        origin = f" from {self.source}" if self.source is not None else ""
        return f"<{type(self).__name__}{origin}>"


class NotReconstructible(Exception):
    """No code can build the value of a variable."""

    def __init__(self, variable: VariableTracker) -> None:
        super().__init__(f"no code can build {variable}")
        self.variable = variable


class LazyVariable(VariableTracker):
    """A value with a source that nobody has looked at: it costs no guard and no graph input."""

    source: Source

    def __init__(self, value: Any, source: Source, wrap: Callable[[Any, Source], VariableTracker]) -> None:
        self.value = value
        self.source = source
        self._wrap = wrap
        self._realized: VariableTracker | None = None

    def realize(self) -> VariableTracker:
        """Wrap the value now."""
        if self._realized is None:
            self._realized = self._wrap(self.value, self.source)
        return self._realized

    def is_realized(self) -> bool:
        """Whether somebody has looked."""
        return self._realized is not None


def drain(tx: Tx, iterator: VariableTracker) -> Iterator[VariableTracker]:
    """The items an iterator variable still has."""
    while (item := try_next(tx, iterator)) is not None:
        yield item


def try_next(tx: Tx, iterator: VariableTracker) -> VariableTracker | None:
    """`next(iterator)`, or None at its end."""
    from_iterator: Callable[[Tx], VariableTracker | None] | None = getattr(iterator, "next_or_none", None)
    if from_iterator is not None:
        return from_iterator(tx)
    return next_catching(tx, iterator)


def next_catching(tx: Tx, iterator: VariableTracker) -> VariableTracker | None:
    """`next(iterator)` for an iterator that ends by raising StopIteration in the traced program."""
    try:
        return iterator.next_item(tx)
    except ObservedException as signal:
        if issubclass(signal.value.python_type(), StopIteration):
            return None
        raise


def is_the(value: VariableTracker, singleton: Any) -> bool:
    """Whether a variable is None, NotImplemented or another constant that is alone of its type."""
    return (
        value.python_type() is type(singleton)
        and value.is_python_constant()
        and value.as_python_constant() is singleton
    )


def realize_all(values: Args) -> list[VariableTracker]:
    """The values, each looked at."""
    return [v.realize() for v in values]
