"""A Triton kernel that Inductor generated: what it consists of, its binary for the target, and how it is launched."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import triton
from triton.compiler import ASTSource

from .errors import HarnessError
from .interpreter import run_interpreted
from .target import Target
from .torch_compat import compile_meta, compile_options, launch_grid, load_kernel
from .triton_driver import gpu_target

ELF_MAGIC: Final = b"\x7fELF"
_ELF_MACHINE_CUDA: Final = 190
_ABI_VERSION: Final = 8
"""Where an ELF file says how NVIDIA's part of it is laid out; ptxas writes older forms for older targets."""
_ABI_OF_CUDA_13: Final = 8


class Cubin(NamedTuple):
    """A kernel's binary."""

    data: bytes
    """An ELF file."""
    ptx: str
    """The assembly it was made from."""
    shared_memory: int
    """Bytes that a block of the kernel needs."""

    @property
    def arch(self) -> int:
        """For which compute capability it is, from its own header: 90 is 9.0."""
        flags = int.from_bytes(self.data[48:52], "little")
        return flags >> 8 & 0xFF if self.data[_ABI_VERSION] >= _ABI_OF_CUDA_13 else flags & 0xFF


class Kernel:
    """One kernel.

    Compiled code calls it as it would call Inductor's own object, by `run`, and it runs under Triton's interpreter.
    """

    def __init__(self, name: str, source: str, target: Target) -> None:
        self.name = name
        self.source = source
        """What Inductor handed to its asynchronous compiler."""
        self.target = target
        self.launches: list[tuple[int, int, int]] = []
        """The grid of each launch so far."""
        self._autotuner = load_kernel(name, source)

    @property
    def signature(self) -> dict[str, str]:
        """The kernel's arguments with Triton's types."""
        return dict(self._autotuner.triton_meta["signature"])

    @property
    def choices(self) -> list[Any]:
        """The configurations among which Inductor chooses by the clock on a real GPU."""
        return list(self._autotuner.configs)

    def cubin(self, choice: Any = None) -> Cubin:
        """Compile the kernel ahead of time, with the options that Inductor gives.

        Args:
            choice: One of `choices`; by default the first.

        Raises:
            HarnessError: What came out is no binary for the target.
        """
        choice = choice or self.choices[0]
        meta = compile_meta(self._autotuner, choice)
        source = ASTSource(self._autotuner.fn, meta["signature"], meta["constants"], meta["configs"][0])
        options = compile_options(self._autotuner, choice, meta)
        binary = triton.compile(source, target=gpu_target(self.target), options=options)
        made = Cubin(binary.asm["cubin"], binary.asm["ptx"], binary.metadata.shared)
        self._check(made)
        return made

    def run(self, *args: Any, stream: Any = None) -> None:
        """Run the kernel on CPU tensors under Triton's interpreter, in its first configuration."""
        choice = self.choices[0]
        function = self._autotuner.fn
        names = [parameter.name for parameter in function.params if not parameter.is_constexpr]
        extra = list(self._autotuner.inductor_meta.get("extra_launcher_args", ()))
        if len(args) != len(names) + len(extra):
            raise HarnessError(
                f"{self.name} takes {names} and for its grid {extra}, and was called with {len(args)} arguments"
            )
        given = dict(zip([*names, *extra], args, strict=True))
        grid = launch_grid(self._autotuner, choice, given)
        self.launches.append(grid)
        arguments = {name: given[name] for name in names} | self._constants(choice)
        run_interpreted(function.fn, arguments, grid)

    def _constants(self, choice: Any) -> dict[str, Any]:
        constants: dict[str, Any] = compile_meta(self._autotuner, choice)["constants"]
        parameters = {parameter.name for parameter in self._autotuner.fn.params if parameter.is_constexpr}
        return {name: value for name, value in constants.items() if name in parameters}

    def _check(self, cubin: Cubin) -> None:
        machine = int.from_bytes(cubin.data[18:20], "little")
        if not cubin.data.startswith(ELF_MAGIC) or machine != _ELF_MACHINE_CUDA:
            raise HarnessError(f"{self.name}: what Triton made is no ELF file for NVIDIA's GPUs")
        if cubin.arch != self.target.arch or f".target {self.target.name}" not in cubin.ptx:
            raise HarnessError(f"{self.name} was compiled for sm_{cubin.arch} instead of {self.target.name}")
        limit = self.target.shared_memory_per_block_optin
        if cubin.shared_memory > limit:
            raise HarnessError(f"{self.name} needs {cubin.shared_memory} bytes of shared memory; a block has {limit}")
