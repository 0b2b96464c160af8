"""The reference backends: graphs run in eager mode, with and without AOTAutograd."""

from .backend import AotEagerBackend, EagerBackend, aot_eager, eager
from .options import AotEagerOptions

__all__ = ["AotEagerBackend", "AotEagerOptions", "EagerBackend", "aot_eager", "eager"]
