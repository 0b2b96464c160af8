"""The backends as torch.compile takes them, by entry point."""

from graphwright_plugins import as_torch_backend

eager = as_torch_backend("eager")
aot_eager = as_torch_backend("aot_eager")
