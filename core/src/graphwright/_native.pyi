"""Types of the C extension: guard trees, code cache, Compiled, frame hook.

A *node spec* is ``(accessor, key, checks, children, slot)``; lists for checks and children, slot -1 when the value is
not kept. Root accessors: ``("local", i)``, ``("globals", None)``, ``("builtins", None)``, ``("closure_cell", i)``,
``("function", None)``, ``("object", obj)``, ``("constant", obj)``. Child accessors: ``("attr", name)``,
``("instance_dict", None)``, ``("dict_item", key)``, ``("dict_key", i)``, ``("index", i)``, ``("item", key)``,
``("type", None)``, ``("mro_attr", name)``, ``("cell_contents", None)``. Checks: ``("type", T)``, ``("id", obj)``,
``("eq", constant)``, ``("len", n)``, ``("keys", keys)``, ``("dict_has", key)``, ``("dict_lacks", key)``,
``("absent",)``, ``("truth", bool)``, ``("tensor", example, dynamic_dims_or_None)``. Relations:
``("same", slots)``, ``("distinct", slots)``, ``("storages", slots, group_ids, offsets?)``.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType, FunctionType
from typing import Any, Final, TypeAlias, final

SKIP: Final = 1
"""Flag: always run the original."""
RUN_ONLY: Final = 2
"""Flag: run cached entries, never capture."""
HOOK: Final = 4
"""Flag: with SKIP, RUN_ONLY or alone as convert's answer: run the original with the frame hook on."""

NodeSpec: TypeAlias = tuple[str, Any, list[tuple[Any, ...]], list[Any], int]
Path: TypeAlias = tuple[tuple[str, Any], ...]
Convert: TypeAlias = Callable[[FunctionType, tuple[Any, ...], Any], Entry | int | None]
"""``convert(function, args, key)``: args are the bound arguments in the order of ``co_varnames``."""

@final
class Life:
    """What the weak references of a guard tree tell when an object dies: `__self__` of their callbacks."""

@final
class GuardTree:
    """Guards of one entry, and the way to the values it needs."""

    def __new__(
        cls,
        roots: list[NodeSpec],
        n_slots: int = 0,
        relations: list[tuple[Any, ...]] = ...,
        ambient: bool = False,
    ) -> GuardTree: ...
    def check(self, args: tuple[Any, ...], function: FunctionType, /) -> bool:
        """Whether all guards hold. Only exceptions that are no ``Exception`` (KeyboardInterrupt) propagate."""

    def fetch(self, args: tuple[Any, ...], function: FunctionType, /) -> tuple[Any, ...] | None:
        """The values of all slots, or None when a guard fails."""

    def first_failure(self, args: tuple[Any, ...], function: FunctionType, /) -> tuple[Path, tuple[Any, ...]] | None:
        """Path and check of the first guard that fails, or None.

        The check is as given, except: ``("tensor", text)`` with the difference in words, ``("fetch",)`` when the
        value is not there, ``("relation", spec)``, ``("ambient", name, expected, found)``; the last two have no path.
        """

    def why_not(
        self, args: tuple[Any, ...], function: FunctionType, /
    ) -> tuple[Path | tuple[Path, ...], tuple[Any, ...], Any] | None:
        """As `first_failure`, with the value that failed the check.

        For a relation: the paths of all the values it is between, and a tuple of those values.
        """

    def identities_hold(self, args: tuple[Any, ...], function: FunctionType, /) -> bool:
        """Whether all checks ``id`` and ``type`` hold, whatever the others say."""

    def alive(self) -> bool:
        """False once an object the tree holds weakly died: then the guards can never hold again."""

    @property
    def n_slots(self) -> int: ...
    @property
    def n_nodes(self) -> int: ...
    @property
    def n_shortcuts(self) -> int:
        """Number of subtrees that are skipped while the dicts in them do not change (0 on 3.13)."""

    @property
    def shortcut_hits(self) -> int: ...

@final
class Entry:
    """Replacement code and the tree that guards it.

    ``code`` takes all argument slots of the original in the order of its ``co_varnames`` as plain positional
    parameters, then ``inputs`` (tuple of the first ``n_inputs`` slots) and ``extras`` (tuple of the rest, or None).
    It has no free variables, or exactly those of the original.
    """

    def __new__(
        cls, tree: GuardTree, code: CodeType, n_inputs: int, needs_hook: bool = False, name: str = ""
    ) -> Entry: ...
    @property
    def tree(self) -> GuardTree: ...
    @property
    def code(self) -> CodeType: ...
    @property
    def n_inputs(self) -> int: ...
    @property
    def needs_hook(self) -> bool: ...
    @property
    def name(self) -> str: ...
    @property
    def hits(self) -> int: ...

@final
class Compiled:
    """A callable that looks like ``function`` and runs cached entries of its code for ``key``.

    Attributes of functions are read from and written to the function; ``__wrapped__`` is the function. ``convert``
    may be None: then only entries added by ``add_entry`` run.
    """

    def __new__(cls, function: FunctionType, key: object, convert: Convert | None) -> Compiled: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: object, owner: type | None = None, /) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
    @property
    def __wrapped__(self) -> FunctionType: ...

@final
class Continuation:
    """A callable that calls ``function`` with the arguments given here, whatever arguments it is called with itself.

    ``function`` may end with ``return go_on(...)``.
    """

    def __new__(cls, function: Callable[..., Any], *args: Any) -> Continuation: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

def go_on(compiled: Compiled, /, *args: Any) -> Any:
    """What replacement code returns to have ``compiled(*args)`` called when its frame is gone, with the same caller."""

def add_entry(code: CodeType, key: object, entry: Entry, /) -> None:
    """Put an entry in front of those the code has for the key (compared by identity); dead ones are dropped."""

def entries(code: CodeType, key: object, /) -> list[Entry]:
    """Live entries, most recently used first."""

def mark(code: CodeType, key: object, flags: int, /) -> None:
    """Set SKIP, RUN_ONLY or 0 for a key; key None means every key."""

def flags(code: CodeType, key: object, /) -> int: ...
def reset_code(code: CodeType, /) -> None:
    """Drop entries and marks of every key (a mark made for key None stays)."""

def reset_key(key: object, /) -> int:
    """Drop entries and marks of one key from all code objects; the number of entries dropped."""

def reset_all() -> int:
    """Drop entries and marks of all code objects; the number of entries dropped."""

def set_stance(stance: int, /) -> int:
    """0 default, 1 force eager, 2 run cached entries only; returns the stance before. For the whole process."""

def is_capturing() -> bool:
    """Whether convert runs in this thread, or enter_capture was called: Compiled objects run their originals."""

def enter_capture() -> None: ...
def leave_capture() -> None: ...
def setup_torch(
    tensor_base: type,
    reader: Callable[[Any], tuple[Any, ...]],
    storage_reader: Callable[[Any], int],
    samples: tuple[Any, ...],
    ambient_reader: Callable[[], dict[str, Any]],
    mode_key: Callable[[Any], object],
    ambient_contexts: tuple[AbstractContextManager[Any], ...],
) -> dict[str, Any]:
    """Find and test the fast ways to read tensors and ambient state; needed before tensor or ambient guards.

    Args:
        tensor_base: The class whose instances hold an ``at::Tensor``.
        reader: ``tensor -> (dtype, device type, device index or -1, layout, requires_grad, sizes, strides or None
            when not strided, is_conj, is_neg, _cdata)``; used for the self-test and where the fast way does not work.
        storage_reader: ``tensor -> address of its storage's memory``, 0 when it has none.
        samples: Tensors of many kinds the fast way must read as ``reader`` does.
        ambient_reader: All fields of ``read_ambient``, read in Python.
        mode_key: ``torch function mode -> object``, equal for modes that act alike.
        ambient_contexts: The ambient readings are compared in each of them.

    Returns:
        Bools ``tensor_meta``, ``ambient``, ``frame_hook``, and ``tensor_meta_in_place`` and
        ``ambient_in_place`` (faster forms of the former two), and
        why not, or None: ``tensor_meta_reason``, ``ambient_reason``, ``frame_hook_reason``.
    """

def read_ambient() -> dict[str, Any]: ...
def is_constant(obj: object, /) -> bool:
    """Whether check ``eq`` takes the object."""

def constants_equal(a: object, b: object, /) -> bool:
    """Whether check ``eq`` takes two constants for equal: same types, bit for bit."""

def hook_available() -> bool:
    """Whether the frame hook passed its self-test on this interpreter."""

def set_hook(convert: Convert, key: object, /) -> None:
    """Meet this thread's frames until the matching ``unset_hook``; nests."""

def unset_hook() -> None:
    """Take back the innermost ``set_hook`` of this thread."""

def call_unhooked(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function; the hook leaves the frames below it alone."""

def hook_unavailable_reason() -> str | None: ...
def _force_by_call(force: bool, /) -> None:
    """For tests: never replace a frame in place."""

def hook_depth() -> int:
    """Number of nested wishes for the hook in this thread."""
