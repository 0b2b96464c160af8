"""Options, modes, and what `available()` says is missing; nothing is compiled here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from graphwright_inductor_gpu import MODES, InductorOptions, availability, inductor_gpu
from graphwright_inductor_gpu.options import to_config
from graphwright_plugins import (
    BackendUnavailable,
    OptionError,
    OptionTypeError,
    UnknownMode,
    UnknownOption,
    list_backends,
    resolve_backend,
)

OWN_OPTIONS = {
    "freezing",
    "fallback_random",
    "joint_graph_constant_folding",
    "max_autotune",
    "coordinate_descent_tuning",
    "epilogue_fusion",
    "emulate_precision_casts",
    "triton.cudagraphs",
}
OURS = {"fallback_random": True, "joint_graph_constant_folding": False}


def test_it_is_found_by_its_entry_point() -> None:
    (info,) = [info for info in list_backends() if info.distribution == "graphwright-inductor-gpu"]
    assert (info.name, info.known_error) == ("inductor_gpu", None)
    assert resolve_backend("inductor_gpu").backend is inductor_gpu


def test_defaults_change_what_would_differ_from_eager_only() -> None:
    assert to_config(InductorOptions()) == OURS


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("default", {}),
        ("reduce-overhead", {"triton.cudagraphs": True}),
        ("max-autotune", {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True}),
        ("max-autotune-no-cudagraphs", {"max_autotune": True, "coordinate_descent_tuning": True}),
    ],
)
def test_modes_are_those_of_torch(mode: str, expected: dict[str, Any]) -> None:
    options = resolve_backend("inductor_gpu", mode=mode).options
    assert to_config(options) == {**OURS, **expected}
    assert torch._inductor.list_mode_options(mode) == expected
    assert set(MODES) == set(torch._inductor.list_mode_options()) - {"lite"}


def test_options_win_over_the_mode() -> None:
    options = resolve_backend("inductor_gpu", {"cudagraphs": False}, mode="max-autotune").options
    assert to_config(options)["triton.cudagraphs"] is False
    assert to_config(options)["max_autotune"] is True


def test_any_setting_of_inductor_may_be_given() -> None:
    options = resolve_backend("inductor_gpu", {"config": {"max_fusion_size": 8, "cpp.simdlen": 1}}).options
    assert to_config(options) == {**OURS, "max_fusion_size": 8, "cpp.simdlen": 1}


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_autotun": True}, UnknownOption, "Did you mean 'max_autotune'"),
        ({"max_autotune": "yes"}, OptionTypeError, "must be bool or None, not 'yes'"),
        ({"fallback_random": None}, OptionTypeError, "must be bool"),
        ({"config": {"max_fusion_sise": 8}}, OptionError, "Did you mean 'max_fusion_size'"),
        ({"config": {"triton.cudagraphs": True}}, OptionError, r"write {'cudagraphs': \.\.\.}"),
        ({"config": {"freezing": True}}, OptionError, r"write {'freezing': \.\.\.}"),
        ({"config": {"max_fusion_size": "abc"}}, OptionTypeError, "'max_fusion_size', which must be int, not 'abc'"),
        ({"config": {"cpp.threads": [1]}}, OptionTypeError, r"'cpp\.threads', which must be int, not \[1\] \(list"),
        ({"config": {"debug": "no"}}, OptionTypeError, "'debug', which must be bool, not 'no'"),
        ({"config": {"debug": 1}}, OptionTypeError, "must be bool, not 1"),
        ({"config": {"debug": None}}, OptionTypeError, "must be bool, not None"),
        ({"config": {"cpp.simdlen": "x"}}, OptionTypeError, "must be int or None, not 'x'"),
        ({"config": {"min_overlap_ratio": True}}, OptionTypeError, "must be float, not True"),
        ({"config": {"custom_should_partition_ops": "aten.add"}}, OptionTypeError, "must be list, not 'aten.add'"),
        ({"config": {"memory_pool": "all"}}, OptionTypeError, "must be 'none' or 'intermediates' or 'outputs'"),
        ({"config": {"post_grad_custom_pre_pass": 3}}, OptionTypeError, "a function or .* None, not 3"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        resolve_backend("inductor_gpu", options)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpp.simdlen", None),
        ("worker_log_path", "log.txt"),  # its default is None, and torch says no more of its type
        ("min_overlap_ratio", 2),
        ("combo_kernels_autotune", True),
        ("cpp.cxx", "clang++"),
        ("cpp.cxx", (None, "clang++")),
        ("cuda.cutlass_dynamic_cluster_shape", [2, 1, 1]),
        ("memory_pool", "none"),
        ("post_grad_custom_pre_pass", print),
        ("triton.multi_kernel", 2),
    ],
)
def test_what_a_setting_may_have_is_taken(name: str, value: Any) -> None:
    assert resolve_backend("inductor_gpu", {"config": {name: value}}).options.config == {name: value}


def test_every_setting_may_have_the_value_that_it_has() -> None:
    present = torch._inductor.config.get_config_copy()
    given = {name: value for name, value in present.items() if name not in OWN_OPTIONS}
    assert InductorOptions(config=given).config == given


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(UnknownMode, match="Did you mean 'max-autotune'"):
        resolve_backend("inductor_gpu", mode="max_autotune")


# ------------------------------------------------------------------ what is missing


def test_it_can_work_here() -> None:
    assert inductor_gpu.available() is None


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BackendUnavailable, match=r"'no-such-compiler', which .* CXX names.*apt install g\+\+"):
        resolve_backend("inductor_gpu")
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BackendUnavailable, match=r"'g\+\+' is not on the PATH"):
        resolve_backend("inductor_gpu")


def test_missing_headers_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(availability.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(BackendUnavailable, match=r"Python\.h.*python3-dev"):
        resolve_backend("inductor_gpu")


def test_triton_is_needed_with_a_gpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    for has_driver in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda answer=has_driver: answer)
        missing = inductor_gpu.available()
        assert (missing is not None) is has_driver
    assert missing is not None
    assert "triton" in missing.reason
    assert "pip install triton" in missing.remedy
