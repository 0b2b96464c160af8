"""What a `GraphForm` may be, and how a backend is asked for it."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import pytest
import torch

from graphwright_plugins import BackendContractError, Capabilities, DeclarationError, GraphForm, OptionError
from graphwright_plugins.form.form_checks import CHOICES, FLAGS
from graphwright_plugins.form.graph_form import form_of

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"level": "atem"}, r"level='atem'; it must be 'torch' or 'aten'\. Did you mean 'aten'\?"),
    ({"level": "ATEN"}, r"level='ATEN'.* Did you mean 'aten'"),
    ({"level": None}, r"level=None; it must be 'torch' or 'aten'\."),
    ({"sizes": "fix"}, r"sizes='fix'.* Did you mean 'fixed'"),
    ({"weights": "frozn"}, r"weights='frozn'.* Did you mean 'frozen'"),
    ({"level": "aten", "partition": "mincut"}, r"partition='mincut'.* or a function\. Did you mean 'min_cut'"),
    ({"level": "aten", "decompositions": "cor"}, r"decompositions='cor'.* Did you mean 'core'"),
    ({"level": "aten", "decompositions": 3}, r"decompositions=3; it must be 'none' or 'core' or names of operators"),
    ({"level": "aten", "decompositions": ["aten.gellu"]}, r"no decomposition for 'aten\.gellu'.*Did you mean 'aten\.g"),
    ({"level": "aten", "decompositions": [torch.relu]}, r"in decompositions; operators are named like"),
    ({"level": "aten", "decompositions": {"aten.gelu": len}}, r"'aten\.gelu': .* a table is of operators such as"),
    ({"level": "aten", "decompositions": {torch.ops.aten.gelu.default: 1}}, r"the function that replaces it"),
    ({"level": "aten", "keep": ["gelu"]}, r"'gelu' in keep; operators are named.* Did you mean 'aten\.gelu'\?"),
    ({"level": "aten", "keep": ["aten::gelu.default"]}, r"Did you mean 'aten\.gelu\.default'\?"),
    ({"level": "aten", "keep": ["aten.gelu.defaut"]}, r"torch has no operator 'aten\.gelu\.defaut'"),
    (
        {"level": "aten", "keep": "aten.gelu"},
        r"keep='aten\.gelu'; it must be names of operators such as \['aten\.gelu'\]",
    ),
    ({"level": "aten", "keep": 3}, r"keep=3"),
    ({"dtypes": ["float32"]}, r"'float32' in dtypes; it must be a set of dtypes such as torch\.float32"),
    ({"dtypes": torch.float32}, r"dtypes=torch\.float32; it must be a set"),
    *(({flag: "no"}, rf"{flag}='no'; it must be True or False") for flag in FLAGS),
]


@pytest.mark.parametrize(("form", "told"), WRONG, ids=[f"{n}-{next(iter(form))}" for n, (form, _) in enumerate(WRONG)])
def test_wrong_values_are_refused_with_what_is_allowed(form: Mapping[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        GraphForm(**form)


def test_each_field_with_names_or_a_flag_is_checked() -> None:
    hints = get_type_hints(GraphForm)
    for name, allowed in CHOICES.items():
        literal = hints[name] if get_args(hints[name])[0] in allowed else get_args(hints[name])[0]
        assert get_args(literal) == allowed
    assert set(FLAGS) == {name for name, hint in hints.items() if hint is bool}
    assert set(hints) == {*CHOICES, *FLAGS, "keep", "dtypes"}


def test_what_may_be_given_is_taken() -> None:
    def each(*args: Any) -> bool:
        return True

    for name, allowed in CHOICES.items():
        for value in allowed:
            GraphForm(**{"level": "aten", name: value})
    gelu = torch.ops.aten.gelu.default
    GraphForm(level="aten", partition=each, keep=each, decompositions={gelu: each})
    GraphForm(level="aten", keep=("aten.gelu", "aten.gelu.default", "mylib.not_registered_yet"))
    GraphForm(level="aten", decompositions={"aten.gelu", "mylib.not_registered_yet"})
    assert GraphForm(dtypes=[torch.float32]).dtypes == frozenset({torch.float32})  # type: ignore[arg-type]


def backend(form: Any) -> Any:
    return SimpleNamespace(name="mini", capabilities=Capabilities(), compile=len, graph_form=form)


def test_a_function_that_raises_is_the_backends_fault() -> None:
    with pytest.raises(
        BackendContractError, match=r"graph_form\(options\) of backend 'mini' of a 1 raised AttributeError"
    ) as caught:
        form_of(backend(lambda options: options.nope), object(), "backend 'mini' of a 1")
    assert isinstance(caught.value.__cause__, AttributeError)


def test_an_error_of_the_contract_is_told_with_whose_it_is() -> None:
    def refusing(options: Any) -> GraphForm:
        raise OptionError("these don't go together")

    with pytest.raises(OptionError, match=r"graph_form\(options\) of backend 'mini': these don't go together"):
        form_of(backend(refusing), None)
    with pytest.raises(DeclarationError, match=r"graph_form\(options\) of backend 'mini': GraphForm has level='atem'"):
        form_of(backend(lambda options: GraphForm(level="atem")), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", [{"level": "aten"}, lambda options: None])
def test_something_else_is_refused(form: Any) -> None:
    with pytest.raises(BackendContractError, match="instead of GraphForm"):
        form_of(backend(form), None)
