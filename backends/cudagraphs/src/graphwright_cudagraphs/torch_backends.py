"""The backend as torch.compile takes it, by entry point."""

from graphwright_plugins import as_torch_backend

cudagraphs = as_torch_backend("cudagraphs")
