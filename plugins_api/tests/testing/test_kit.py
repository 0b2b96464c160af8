"""The kit finds what is wrong: each class fails on a backend wrong in its subject, and passes on a right one."""

import importlib

import pytest

pytest_plugins = ["pytester"]

WRONG_BACKENDS = '''
import torch
from graphwright_plugins import Capabilities, UnsupportedGraph

def right(gm, example_inputs):
    return gm.forward

def wrong_values(gm, example_inputs):
    def run(*args):
        return tuple(out * 1.01 if isinstance(out, torch.Tensor) and out.is_floating_point() else out
                     for out in gm.forward(*args))
    return run

def wrong_dtype(gm, example_inputs):
    def run(*args):
        return tuple(out.double() if isinstance(out, torch.Tensor) and out.is_floating_point() else out
                     for out in gm.forward(*args))
    return run

def wrong_strides(gm, example_inputs):
    def run(*args):
        return tuple(out.contiguous() if isinstance(out, torch.Tensor) else out for out in gm.forward(*args))
    return run

def bare_output(gm, example_inputs):
    def run(*args):
        outputs = gm.forward(*args)
        return outputs[0] if len(outputs) == 1 else outputs
    return run

def without_gradients(gm, example_inputs):
    def run(*args):
        with torch.no_grad():
            return gm.forward(*args)
    return run

def wrong_gradients(gm, example_inputs):
    def run(*args):
        outputs = gm.forward(*args)
        return tuple(out + (out - out.detach()) if out.requires_grad else out for out in outputs)
    return run

def ignores_changes(gm, example_inputs):
    def run(*args):
        return gm.forward(*(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args))
    return run

def hides_changes_from_autograd(gm, example_inputs):
    def run(*args):
        copies = [arg.clone() for arg in args]
        outputs = gm.forward(*copies)
        for arg, copy in zip(args, copies):
            arg.data.copy_(copy)
        return outputs
    return run

def copies_outputs(gm, example_inputs):
    def run(*args):
        return tuple(out.clone() if isinstance(out, torch.Tensor) else out for out in gm.forward(*args))
    return run

def shares_outputs(gm, example_inputs):
    kept = {}
    def run(*args):
        outputs = gm.forward(*args)
        for index, out in enumerate(outputs):
            if index in kept and kept[index].shape == out.shape:
                kept[index].copy_(out)
            else:
                kept[index] = out.clone()
        return tuple(kept[index] for index in range(len(outputs)))
    return run

def fixed_seed(gm, example_inputs):
    def run(*args):
        torch.manual_seed(0)
        return gm.forward(*args)
    return run

def other_generator(gm, example_inputs):
    def run(*args):
        torch.rand(1)
        return gm.forward(*args)
    return run

def fixed_size(gm, example_inputs):
    sizes = [tuple(int(size) for size in example.shape) for example in example_inputs]
    def run(*args):
        for size, arg in zip(sizes, args):
            if tuple(arg.shape) != size:
                raise RuntimeError("wrong size")
        return gm.forward(*args)
    return run

def wrong_at_other_sizes(gm, example_inputs):
    rows = int(example_inputs[0].shape[0])
    def run(*args):
        outputs = gm.forward(*args)
        return outputs if args[0].shape[0] == rows else tuple(torch.zeros_like(out) for out in outputs)
    return run

kept_inputs = []
def keeps_inputs(gm, example_inputs):
    def run(*args):
        kept_inputs.append(args)
        return gm.forward(*args)
    return run

def keeps_graphs(gm, example_inputs):
    kept_inputs.append(gm)
    return gm.forward

def swallows_errors(gm, example_inputs):
    def run(*args):
        try:
            return gm.forward(*args)
        except IndexError:
            return (torch.zeros(2),)
    return run

def any_option(gm, example_inputs, **options):
    return gm.forward

class NoDoubles:
    """Says what it doesn't do: the kit skips that."""
    name = "no_doubles"
    capabilities = Capabilities(dtypes=frozenset({torch.float32}), training=False, mutation=False, random=False)
    def compile(self, graph, example_inputs, options):
        if any(isinstance(x, torch.Tensor) and x.dtype != torch.float32 for x in example_inputs):
            raise UnsupportedGraph("only float32")
        return graph.forward
'''

MODULE = """
import pytest
from graphwright_plugins import testing
import wrong_backends

@pytest.fixture
def backend():
    return wrong_backends.{backend}

class Test(testing.{tests}):
    {body}
"""


# Hypothesis' plugin would import and rewrite all of Hypothesis in each of these sessions, for its last report.
QUIET = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")


def run_kit(
    pytester: pytest.Pytester, backend: str, tests: str, *arguments: str, body: str = "pass"
) -> pytest.RunResult:
    """Run one conformance class on one of the backends above."""
    pytester.makepyfile(wrong_backends=WRONG_BACKENDS)
    pytester.makepyfile(test_it=MODULE.format(backend=backend, tests=tests, body=body))
    pytester.syspathinsert()
    return pytester.runpytest_inprocess("-q", *QUIET, *arguments)


@pytest.mark.parametrize(
    ("tests", "backend", "selected"),
    [
        ("ForwardTests", "wrong_values", "test_program"),
        ("ForwardTests", "wrong_dtype", "test_program"),
        ("ForwardTests", "wrong_strides", "test_input_layout"),
        ("CallingTests", "bare_output", "test_no_inputs or test_outputs"),
        ("ForwardTests", "shares_outputs", "test_two_graphs or test_program"),
        ("TrainingTests", "without_gradients", "test_gradients"),
        ("TrainingTests", "wrong_gradients", "test_gradients"),
        ("MutationTests", "ignores_changes", "test_changed_input"),
        ("MutationTests", "hides_changes_from_autograd", "test_version_counter"),
        ("AliasingTests", "copies_outputs", "test_output"),
        ("AliasingTests", "ignores_changes", "test_output or test_changed_input"),
        ("DynamicShapeTests", "fixed_size", "test_sizes"),
        ("DynamicShapeTests", "wrong_at_other_sizes", "test_sizes"),
        ("RandomTests", "fixed_seed", "test_same_seed"),
        ("RandomTests", "fixed_seed", "test_new_draw_each_call"),
        ("RandomTests", "other_generator", "test_equals_eager"),
        ("LifeTests", "keeps_inputs", "test_inputs_released"),
        ("LifeTests", "keeps_graphs", "test_compiled_graph_released"),
        ("ErrorTests", "swallows_errors", "test_error_while_running"),
        ("OptionTests", "any_option", "test_unknown_mode"),
    ],
)
def test_a_wrong_backend_fails(pytester: pytest.Pytester, tests: str, backend: str, selected: str) -> None:
    result = run_kit(pytester, backend, tests, "-x", "-k", selected)
    outcomes = result.parseoutcomes()
    assert outcomes.get("failed") == 1, outcomes
    assert "errors" not in outcomes


# The other classes pass on the eager backends, in that package's own tests.
@pytest.mark.parametrize("tests", ["ContractTests", "ErrorTests", "OptionTests"])
def test_a_right_callable_passes(pytester: pytest.Pytester, tests: str) -> None:
    outcomes = run_kit(pytester, "right", tests).parseoutcomes()
    assert outcomes["passed"] > 0
    assert "failed" not in outcomes
    assert "errors" not in outcomes


def test_capabilities_not_claimed_are_skipped(pytester: pytest.Pytester) -> None:
    outcomes = run_kit(pytester, "NoDoubles()", "MutationTests", "-k", "test_changed_input").parseoutcomes()
    assert outcomes.keys() == {"skipped", "deselected"}
    outcomes = run_kit(pytester, "NoDoubles()", "NumericsTests", "-k", "test_dtype").parseoutcomes()
    assert outcomes["passed"] == 1
    assert "failed" not in outcomes


KNOWN = """known_failures = {{
        "test_program[matmul]": testing.KnownFailure("notyet", "the library has no matmul", raises={raises}),
    }}"""


@pytest.mark.parametrize(
    ("backend", "raises", "outcome"),
    [
        ("wrong_values", "AssertionError", "xfailed"),
        # The list must stay true, so these two are failures:
        ("right", "AssertionError", "failed"),
        ("wrong_values", "KeyError", "failed"),
    ],
)
def test_a_known_failure_must_fail_as_written(
    pytester: pytest.Pytester, backend: str, raises: str, outcome: str
) -> None:
    body = KNOWN.format(raises=raises)
    result = run_kit(pytester, backend, "ForwardTests", "-k", "test_program and matmul", body=body)
    outcomes = result.parseoutcomes()
    del outcomes["deselected"]
    assert outcomes == {outcome: 1}


@pytest.mark.parametrize(
    ("tests", "key", "selected"),
    [
        ("NumericsTests", "test_dtype[torch.float64]", "test_dtype and float"),
        ("NumericsTests", "test_rank[2]", "test_rank"),
        ("ForwardTests", "test_grad_mode[no_grad]", "test_grad_mode"),
    ],
)
def test_a_known_failure_names_one_value_of_any_parameter(
    pytester: pytest.Pytester, tests: str, key: str, selected: str
) -> None:
    body = f'known_failures = {{"{key}": testing.KnownFailure("notyet", "by the test")}}'
    outcomes = run_kit(pytester, "wrong_values", tests, "-k", selected, body=body).parseoutcomes()
    assert outcomes["xfailed"] == 1
    assert outcomes["failed"] >= 1


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("test_nope", "there is no such test."),
        ("test_dtypes", "Did you mean 'test_dtype'"),
        ("test_dtype[torch.flot32]", "Did you mean 'test_dtype[torch.float32]'"),
        ("test_rank[17]", "It is run as: 'test_rank[0]', 'test_rank[1]'"),
    ],
)
def test_a_known_failure_of_no_test_is_refused(pytester: pytest.Pytester, key: str, told: str) -> None:
    body = f'known_failures = {{"{key}": testing.KnownFailure("notyet", "by the test")}}'
    result = run_kit(pytester, "right", "NumericsTests", "-k", "test_dtype and float32", body=body)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str()
    assert f"known_failures of test_it.py::Test has an entry '{key}'" in text
    assert told in text


def test_single_tests_run_with_the_whole_list(pytester: pytest.Pytester) -> None:
    body = 'known_failures = {"test_rank[2]": testing.KnownFailure("notyet", "by the test")}'
    pytester.makepyfile(wrong_backends=WRONG_BACKENDS)
    pytester.makepyfile(test_it=MODULE.format(backend="wrong_values", tests="NumericsTests", body=body))
    pytester.syspathinsert()
    for single, outcome in (("test_rank[2]", "xfailed"), ("test_rank[1]", "failed"), ("test_special", "failed")):
        result = pytester.runpytest_inprocess("-q", *QUIET, f"test_it.py::Test::{single}")
        assert outcome in result.parseoutcomes()


INSIDE = """
import pytest
from graphwright_plugins import testing

class TestMine(testing.ConformanceKit):
    class {name}({base}):
        known_failures = {{}}
"""


@pytest.mark.parametrize(
    ("name", "base", "told"),
    [
        (
            "TestNumeric",
            "testing.NumericsTests",
            "TestMine.TestNumeric inherits from testing.NumericsTests, and would run beside the kit's own class for "
            "that, which knows nothing of what is written here: call it TestNumerics, or write it outside of TestMine",
        ),
        ("TestNumerics", "testing.OptionTests", "TestMine.TestNumerics would take away all tests of that name"),
        ("TestNumerics", "", "inherit from testing.NumericsTests, or choose another name"),
        ("TestNumeric", "", "TestMine.TestNumeric has known_failures, and is no class of the kit"),
    ],
)
def test_a_class_inside_that_replaces_nothing_is_refused(name: str, base: str, told: str) -> None:
    with pytest.raises(TypeError) as caught:
        exec(INSIDE.format(name=name, base=base), {"__name__": "test_inside"})
    assert told in str(caught.value)


def test_classes_inside_may_be_replaced_and_added() -> None:
    exec(INSIDE.format(name="TestNumerics", base="testing.NumericsTests"), {"__name__": "test_inside"})
    exec(INSIDE.format(name="TestMyOwn", base="testing.ConformanceTests"), {"__name__": "test_inside"})


SETS = """
from dataclasses import dataclass

import pytest
import torch
from graphwright_plugins import Capabilities, testing


@dataclass(frozen=True)
class Options:
    scale: float = 1.0
    depth: int = 1


class Scaling:
    name = "scaling"
    capabilities = Capabilities()
    options_type = Options

    def compile(self, graph, example_inputs, options):
        assert options.depth == 3
        return lambda *args: tuple(
            out * options.scale if isinstance(out, torch.Tensor) and options.scale != 1 else out
            for out in graph.forward(*args)
        )


@pytest.fixture
def backend():
    return Scaling()


class TestMine(testing.ConformanceKit):
    options = {"depth": 3}
    option_sets = {"doubled": {"scale": 2.0}, "once": {"scale": 1.0}}

    class TestForward(testing.ForwardTests):
        known_failures = {
            "test_program[doubled]": testing.KnownFailure("notyet", "by the test"),
            "test_grad_mode[no_grad]": testing.KnownFailure("notyet", "by the test"),
        }

    class TestOptions(testing.OptionTests):
        option_sets = {}
        options = {"depth": 3, "scale": 1.0}
"""


def test_option_sets_run_each_test_for_each(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=SETS)
    selected = "TestForward and (matmul or no_grad) or test_unknown_option"
    lines = pytester.runpytest_inprocess("-q", "-rA", *QUIET, "-k", selected).outlines
    found = {line.split()[1].rpartition("::")[2]: line.split()[0] for line in lines if "test_it.py::" in line}
    assert found == {
        "test_program[defaults-matmul]": "PASSED",
        "test_program[doubled-matmul]": "XFAIL",
        "test_program[once-matmul]": "PASSED",
        # The entry for one mode means all sets, and that it passes in two of them is an error.
        "test_grad_mode[defaults-no_grad]": "FAILED",
        "test_grad_mode[doubled-no_grad]": "XFAIL",
        "test_grad_mode[once-no_grad]": "FAILED",
        "test_unknown_option": "PASSED",
    }


LOUD = """
import logging
import torch

def loud(gm, example_inputs):
    torch._logging.trace_structured("artifact", payload_fn=lambda: "pages of it")
    logging.getLogger("mine").debug("a line of mine")
    return lambda *args: None
"""


def test_failures_come_without_the_lines_of_torch_trace(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(wrong_backends=LOUD)
    pytester.makepyfile(test_it=MODULE.format(backend="loud", tests="ForwardTests", body="pass"))
    pytester.syspathinsert()
    text = pytester.runpytest_inprocess("-q", *QUIET, "--log-level=DEBUG", "-k", "matmul").stdout.str()
    assert "a compiled graph returned NoneType" in text
    assert "a line of mine" in text
    assert "torch.__trace" not in text


def test_assertions_of_the_kit_explain_themselves() -> None:
    for name in ("artifacts", "comparison", "weights"):
        module = importlib.import_module(f"graphwright_plugins.testing.{name}")
        assert "@pytest_ar" in vars(module)
