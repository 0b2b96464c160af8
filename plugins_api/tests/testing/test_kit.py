"""The kit finds what is wrong: each class fails on a backend wrong in its subject, and passes on a right one."""

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


def run_kit(
    pytester: pytest.Pytester, backend: str, tests: str, *arguments: str, body: str = "pass"
) -> pytest.RunResult:
    """Run one conformance class on one of the backends above."""
    pytester.makepyfile(wrong_backends=WRONG_BACKENDS)
    pytester.makepyfile(test_it=MODULE.format(backend=backend, tests=tests, body=body))
    pytester.syspathinsert()
    # Hypothesis' plugin would import and rewrite all of Hypothesis in each of these sessions, for its last report.
    plugins = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    return pytester.runpytest_inprocess("-q", *plugins, *arguments)


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
