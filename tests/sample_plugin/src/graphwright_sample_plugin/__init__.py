"""An outsider's Graphwright backend."""

from .backend import SampleBackend, sample
from .options import SampleOptions

__all__ = ["SampleBackend", "SampleOptions", "sample"]
