"""The backend in the form that torch.compile takes, named by the package's second entry point."""

from graphwright_plugins import as_torch_backend

from .backend import sample as backend

sample = as_torch_backend(backend)
