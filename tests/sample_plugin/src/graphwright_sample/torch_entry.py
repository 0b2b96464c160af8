"""The backend in the form that torch.compile takes, named by the package's second entry point."""

from graphwright_plugins import as_torch_backend
from graphwright_sample.backend import backend

sample = as_torch_backend(backend)
