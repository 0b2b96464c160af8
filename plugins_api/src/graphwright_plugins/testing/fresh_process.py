"""What a backend does in a process that has imported nothing yet, from being listed to the interpreter's end."""

import functools
import json
import subprocess
import sys
from typing import Any, Final

from graphwright_plugins.loading.registry import default_registry

TIMEOUT_SECONDS: Final = 300
"""How long a process that the kit starts may take: on a busy machine importing torch takes a while."""

_LIFE: Final = """
import json, sys, threading
import torch
from graphwright_plugins import list_backends, load_backend, resolve_backend
from graphwright_plugins.loading.registry import default_registry
name, module, options, device = sys.argv[1:]
infos = {info.name: info for info in list_backends()}
manifest = infos[name].manifest if name in infos else None
by_listing = module in sys.modules
random = torch.get_rng_state()
threads = threading.active_count()
settings = (torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads())
load_backend(name) if name in default_registry() else resolve_backend(name)  # else it is made for torch.compile
facts = {
    "listed": name in infos,
    "manifest": None if manifest is None else str(manifest),
    "imported by listing": by_listing,
    "imported": module in sys.modules,
    "CUDA in use": torch.cuda.is_initialized(),
    "threads started": threading.active_count() - threads,
    "random numbers drawn": not torch.equal(torch.get_rng_state(), random),
    "settings changed": settings != (torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()),
}
print(json.dumps(facts), flush=True)
x = torch.randn(3, 3, device=device)
graph = torch.fx.symbolic_trace(lambda x: (x * 2 + 1, x.sum(0)))
compiled = resolve_backend(name, json.loads(options)).compile(graph, [x])
facts["right"] = all(map(torch.allclose, compiled(x), (x * 2 + 1, x.sum(0))))
print(json.dumps(facts), flush=True)
"""


@functools.cache
def fresh_process(name: str, options: str, device: str) -> "subprocess.CompletedProcess[str]":
    """List, load, compile, call and end with the compiled graph still there; done once for all tests that ask.

    Args:
        name: The name of an installed backend, of ours or of torch.compile's.
        options: Its options, as JSON.
        device: Where inputs live.
    """
    registry = default_registry()
    module = registry.find(name).target.partition(":")[0] if name in registry else ""
    return run_python(_LIFE, name, module, options, device)


def process_facts(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """What a process of `fresh_process` found, as far as it came."""
    found = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert found, f"a process that loads the backend by name ended with status {done.returncode}: {done.stderr}"
    facts: dict[str, Any] = json.loads(found[-1])
    return facts


def run_python(script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a script in a Python process of its own."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
