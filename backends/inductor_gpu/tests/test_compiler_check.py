"""A C++ compiler that is there and doesn't work is told as that, and not as a bug of the backend's."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.exc import TorchDynamoException

from graphwright_inductor_gpu import compiler_check
from graphwright_inductor_gpu.availability import compiler_name
from graphwright_inductor_gpu.compiler_check import compiler_failure
from graphwright_plugins import BackendResourceError, resolve_backend
from graphwright_plugins.testing import Program, compile_program

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="the check knows compilers of other systems only"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
]


def script(folder: Path, body: str) -> str:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


BROKEN = "case \"$*\" in *--version*) exec g++ --version;; *) echo 'fatal: cc1plus is missing' >&2; exit 4;; esac"


def test_one_that_works_is_not_to_blame() -> None:
    assert compiler_failure([compiler_name()], "CppCompileError") is None
    assert compiler_failure(["no-such-compiler", compiler_name()], "CppCompileError") is None
    assert compiler_failure([], "CppCompileError") is None


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (BROKEN, r"can't compile an empty C\+\+20 program \(exit status 4, saying 'fatal: cc1plus is missing'\)"),
        ("exit 0", r"can't compile an empty C\+\+20 program \(exit status 0\)"),
        ("exec sleep 20", "can't be run: .*timed out"),
    ],
)
def test_one_that_does_not_is_told(body: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_check, "_TIMEOUT_S", 1)
    name = script(tmp_path, body)
    failure = compiler_failure([name, "no-such-compiler"], "IndexError: x")
    assert isinstance(failure, BackendResourceError)
    assert re.search(rf"the C\+\+ compiler doesn't work: '{name}' {told}", str(failure))
    assert "'no-such-compiler' is not on the PATH. Inductor said: IndexError: x. " in str(failure)
    assert "apt install g++" in str(failure)


def squares(x: Any) -> tuple[Any, ...]:
    return ((x * 2.125 + x.square()).sin().sum(),)


SQUARES = Program("squares", squares, lambda: (torch.randn(7, requires_grad=True),))


def test_what_inductor_raises_of_it_is_the_cause(tmp_path: Path) -> None:
    config = {"cpp.cxx": (None, script(tmp_path, BROKEN)), "fx_graph_cache": False}
    with pytest.raises(BackendResourceError, match="cc1plus is missing") as caught:
        compile_program(resolve_backend("inductor_gpu", {"config": config}), SQUARES, SQUARES.inputs())
    assert isinstance(caught.value.__cause__, TorchDynamoException)


def test_it_may_break_before_the_backward_graph_is_compiled(tmp_path: Path) -> None:
    inputs = SQUARES.inputs()
    (result,) = compile_program(
        resolve_backend("inductor_gpu", {"config": {"fx_graph_cache": False}}), SQUARES, inputs
    )(*inputs)
    inductor = torch._inductor.config
    with inductor.patch({"cpp.cxx": (None, script(tmp_path, BROKEN))}), pytest.raises(BackendResourceError):
        result.backward()


def test_an_error_of_inductors_own_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any) -> None:
        raise IndexError("lowering is wrong")

    monkeypatch.setattr(torch._inductor.graph.GraphLowering, "run", failing)
    options = {"config": {"fx_graph_cache": False}}
    with pytest.raises(TorchDynamoException, match="lowering is wrong"):
        compile_program(resolve_backend("inductor_gpu", options), SQUARES, SQUARES.inputs())
