"""Constants, local variables, globals, cells, attributes, and moving values on the stack."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Final, NoReturn

from graphwright.bytecode.versions import NULL_BELOW_CALLABLE
from graphwright.symbolic.dispatch import opcode
from graphwright.symbolic.frame_state import NULL, NullVariable
from graphwright.variables.base import VariableTracker
from graphwright.variables.cell import CellVariable
from graphwright.variables.constant import ConstantVariable

if TYPE_CHECKING:
    from graphwright.bytecode import Instruction
    from graphwright.symbolic.translator import Translator

_PYTHON_BUILTINS: Final = frozenset(dir(builtins))


@opcode("NOP", "RESUME")
def nop(tx: Translator, inst: Instruction) -> None:
    """Do nothing.

    Stack: (--)
    """


@opcode("POP_TOP")
def pop_top(tx: Translator, inst: Instruction) -> None:
    """Drop a value, unlooked at.

    Stack: (value --)
    """
    tx.pop_raw()


@opcode("PUSH_NULL")
def push_null(tx: Translator, inst: Instruction) -> None:
    """Mark that the coming call has no `self`.

    Stack: (-- NULL)
    """
    tx.push(NULL)


@opcode("COPY")
def copy(tx: Translator, inst: Instruction) -> None:
    """Push the value at a depth again.

    Stack: (value, ... -- value, ..., value)
    """
    assert inst.arg is not None
    tx.push(tx.stack[-inst.arg])


@opcode("SWAP")
def swap(tx: Translator, inst: Instruction) -> None:
    """Exchange the top with the value at a depth.

    Stack: (bottom, ..., top -- top, ..., bottom)
    """
    assert inst.arg is not None
    stack = tx.stack
    stack[-1], stack[-inst.arg] = stack[-inst.arg], stack[-1]


@opcode("LOAD_CONST")
def load_const(tx: Translator, inst: Instruction) -> None:
    """Push a constant of the code.

    Stack: (-- value)
    """
    tx.push(tx.constant(inst))


# ------------------------------------------------------------------ fast locals


def _unbound(tx: Translator, name: str) -> NoReturn:
    tx.raise_(UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value")


def read_local(tx: Translator, name: str) -> VariableTracker:
    """The value of a fast local; from 3.12 on, the slot of a cell gives the cell itself."""
    found = tx.locals.get(name)
    if found is None:
        found = tx.cells.get(name)
        if found is None:
            _unbound(tx, name)
    return found


def write_local(tx: Translator, name: str, value: VariableTracker) -> None:
    """Set a fast local; an inlined comprehension (3.12) gives back the cell or the empty slot that it put aside."""
    if name in tx.cells:
        del tx.cells[name]
    if isinstance(value, CellVariable) and name in tx.code.co_cellvars:
        tx.locals.pop(name, None)
        tx.cells[name] = value
    elif isinstance(value, NullVariable):
        tx.locals.pop(name, None)
    else:
        tx.locals[name] = value


@opcode("LOAD_FAST")
@opcode("LOAD_FAST_CHECK", since=(3, 12))
def load_fast(tx: Translator, inst: Instruction) -> None:
    """Push a local.

    Stack: (-- value)
    """
    tx.push(read_local(tx, inst.argval))


@opcode("LOAD_FAST_AND_CLEAR", since=(3, 12))
def load_fast_and_clear(tx: Translator, inst: Instruction) -> None:
    """Put a local aside and unbind it; an inlined comprehension starts so.

    Stack: (-- value or NULL)
    """
    name = inst.argval
    held = tx.locals.pop(name, None)
    if held is None:
        held = tx.cells.pop(name, None)
    tx.push(NULL if held is None else held)


@opcode("STORE_FAST")
def store_fast(tx: Translator, inst: Instruction) -> None:
    """Set a local.

    Stack: (value --)
    """
    write_local(tx, inst.argval, tx.pop_raw())


@opcode("DELETE_FAST")
def delete_fast(tx: Translator, inst: Instruction) -> None:
    """Unbind a local.

    Stack: (--)
    """
    if tx.locals.pop(inst.argval, None) is None:
        _unbound(tx, inst.argval)


@opcode("LOAD_FAST_LOAD_FAST", since=(3, 13))
def load_fast_load_fast(tx: Translator, inst: Instruction) -> None:
    """Push two locals.

    Stack: (-- first, second)
    """
    for name in inst.argval:
        tx.push(read_local(tx, name))


@opcode("STORE_FAST_LOAD_FAST", since=(3, 13))
def store_fast_load_fast(tx: Translator, inst: Instruction) -> None:
    """Set a local, then push another.

    Stack: (value -- other)
    """
    stored, loaded = inst.argval
    write_local(tx, stored, tx.pop_raw())
    tx.push(read_local(tx, loaded))


@opcode("STORE_FAST_STORE_FAST", since=(3, 13))
def store_fast_store_fast(tx: Translator, inst: Instruction) -> None:
    """Set two locals, the first from the top.

    Stack: (second, first --)
    """
    for name in inst.argval:
        write_local(tx, name, tx.pop_raw())


# ------------------------------------------------------------------ cells


@opcode("MAKE_CELL")
def make_cell(tx: Translator, inst: Instruction) -> None:
    """Turn a local into a cell that holds its value.

    Stack: (--)
    """
    tx.cells[inst.argval] = CellVariable(tx.locals.pop(inst.argval, None))


@opcode("COPY_FREE_VARS")
def copy_free_vars(tx: Translator, inst: Instruction) -> None:
    """Take the cells of the function's closure.

    Stack: (--)
    """
    tx.cells.update(zip(tx.code.co_freevars, tx.closure, strict=True))


@opcode("LOAD_CLOSURE", until=(3, 13))
def load_closure(tx: Translator, inst: Instruction) -> None:
    """Push a cell, for the closure of a function being made.

    Stack: (-- cell)
    """
    tx.push(read_local(tx, inst.argval) if inst.argval not in tx.cells else tx.cells[inst.argval])


def _empty_cell(tx: Translator, name: str) -> NoReturn:
    if name in tx.code.co_freevars:
        message = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
        tx.raise_(NameError, message)
    _unbound(tx, name)


@opcode("LOAD_DEREF")
def load_deref(tx: Translator, inst: Instruction) -> None:
    """Push what a cell holds.

    Stack: (-- value)
    """
    value = tx.cells[inst.argval].load(tx)
    if value is None:
        _empty_cell(tx, inst.argval)
    tx.push(value)


@opcode("STORE_DEREF")
def store_deref(tx: Translator, inst: Instruction) -> None:
    """Fill a cell.

    Stack: (value --)
    """
    tx.cells[inst.argval].store(tx, tx.pop_raw())


@opcode("DELETE_DEREF")
def delete_deref(tx: Translator, inst: Instruction) -> None:
    """Empty a cell.

    Stack: (--)
    """
    cell = tx.cells[inst.argval]
    if cell.load(tx) is None:
        _empty_cell(tx, inst.argval)
    cell.clear(tx)


# ------------------------------------------------------------------ globals


def read_global(tx: Translator, name: str) -> VariableTracker:
    """A global, or the builtin of that name.

    A name that the globals lack is guarded to stay away. Python's own builtins are taken not to change; what else is
    put among them is guarded.
    """
    found = tx.globals.lookup(tx, ConstantVariable(name))
    if found is not None:
        return found
    try:
        value = builtins.__dict__[name]
    except KeyError:
        tx.raise_(NameError, f"name '{name}' is not defined")
    source = tx.capture.roots.builtins().dict_item(name)
    return tx.wrap_trusted(value, source) if name in _PYTHON_BUILTINS else tx.wrap(value, source)


@opcode("LOAD_GLOBAL")
def load_global(tx: Translator, inst: Instruction) -> None:
    """Push a global or builtin; the low bit of the argument asks for a NULL too.

    Stack: (-- NULL?, value), from 3.13 on (-- value, NULL?)
    """
    assert inst.arg is not None
    wants_null = inst.arg & 1
    if wants_null and NULL_BELOW_CALLABLE:
        tx.push(NULL)
    tx.push(read_global(tx, inst.argval))
    if wants_null and not NULL_BELOW_CALLABLE:
        tx.push(NULL)


@opcode("STORE_GLOBAL")
def store_global(tx: Translator, inst: Instruction) -> None:
    """Set a global.

    Stack: (value --)
    """
    tx.globals.store(tx, ConstantVariable(inst.argval), tx.pop_raw())


@opcode("DELETE_GLOBAL")
def delete_global(tx: Translator, inst: Instruction) -> None:
    """Unbind a global.

    Stack: (--)
    """
    if tx.globals.remove(tx, ConstantVariable(inst.argval)) is None:
        tx.raise_(NameError, f"name '{inst.argval}' is not defined")


# ------------------------------------------------------------------ attributes


@opcode("LOAD_ATTR", until=(3, 12))
def load_attr(tx: Translator, inst: Instruction) -> None:
    """Read an attribute.

    Stack: (owner -- value)
    """
    tx.push(tx.pop().getattr(tx, inst.argval))


@opcode("STORE_ATTR")
def store_attr(tx: Translator, inst: Instruction) -> None:
    """Set an attribute.

    Stack: (value, owner --)
    """
    owner = tx.pop()
    owner.setattr(tx, inst.argval, tx.pop_raw())


@opcode("DELETE_ATTR")
def delete_attr(tx: Translator, inst: Instruction) -> None:
    """Delete an attribute.

    Stack: (owner --)
    """
    tx.pop().delattr(tx, inst.argval)
