"""Backends that are wrong in one thing each, and the class of the kit that finds it; and one right in everything."""

import collections
import sys

import pytest

from graphwright_plugins.testing import ConformanceKit, Theme

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("precision_as_before")

BACKENDS = '''
import io
import os
import pickle
import time
from dataclasses import dataclass

import torch

from graphwright_plugins import Capabilities, GraphForm, NotCacheable, Unsupported, UnsupportedGraph


def is_tensor(value):
    return isinstance(value, torch.Tensor)


class Right:
    """Runs graphs as they are; the others change one thing."""

    capabilities = Capabilities()

    def __init__(self):
        self.name = type(self).__name__

    def compile(self, graph, example_inputs, options):
        def run(*args):
            return self.after(graph.forward(*self.before(args)))

        return run

    def before(self, args):
        return args

    def after(self, outputs):
        return outputs


class WrongInOneDtype(Right):
    def after(self, outputs):
        return tuple(out + 1 if is_tensor(out) and out.dtype == torch.int16 else out for out in outputs)


class WrongAtRank4(Right):
    def after(self, outputs):
        return tuple(out * 1.1 if is_tensor(out) and out.dim() == 4 else out for out in outputs)


class ForgetsInfinity(Right):
    def after(self, outputs):
        return tuple(torch.nan_to_num(out) if is_tensor(out) and out.is_floating_point() else out for out in outputs)


class TooFewOutputs(Right):
    def after(self, outputs):
        return outputs[:-1] if len(outputs) > 1 else outputs


class NoRank0(Right):
    def after(self, outputs):
        return tuple(out.reshape(1) if is_tensor(out) and out.dim() == 0 else out for out in outputs)


class ReusesResults(Right):
    def compile(self, graph, example_inputs, options):
        kept = []

        def run(*args):
            outputs = graph.forward(*args)
            kept[:] = kept or [out.clone() for out in outputs]
            for mine, out in zip(kept, outputs):
                mine.copy_(out)
            return tuple(kept)

        return run


class WritesInputs(Right):
    def before(self, args):
        for arg in args:
            if is_tensor(arg) and arg.is_floating_point() and not arg.requires_grad:
                arg.mul_(2).div_(2)
        return args


class IgnoresChanges(Right):
    def before(self, args):
        return [arg.clone() if is_tensor(arg) else arg for arg in args]


class StaleWeights(Right):
    def compile(self, graph, example_inputs, options):
        held = {}

        def run(*args):
            for place, arg in enumerate(args):
                if isinstance(arg, torch.nn.Parameter):
                    held.setdefault(place, arg.detach().clone())
            return graph.forward(*(held.get(place, arg) for place, arg in enumerate(args)))

        return run


class OneModule(Right):
    """Notices a weight that is written to, and takes every module for the first one."""

    def compile(self, graph, example_inputs, options):
        held = {}

        def run(*args):
            for place, arg in enumerate(args):
                if isinstance(arg, torch.nn.Parameter):
                    held.setdefault(place, arg)
            return graph.forward(*(held.get(place, arg) for place, arg in enumerate(args)))

        return run


class BakesSizes(Right):
    def compile(self, graph, example_inputs, options):
        given = [None if is_tensor(value) else int(value) for value in example_inputs]

        def run(*args):
            return graph.forward(*(arg if size is None else size for arg, size in zip(args, given)))

        return run


@dataclass(frozen=True)
class Switch:
    """One switch."""

    fast: bool = False
    """Nothing."""


class GlobalOptions(Right):
    options_type = Switch
    current = None

    def compile(self, graph, example_inputs, options):
        GlobalOptions.current = options

        def run(*args):
            if GlobalOptions.current != options:
                return tuple(out * 2 for out in graph.forward(*args))
            return graph.forward(*args)

        return run


class DrawsWhileCompiling(Right):
    def compile(self, graph, example_inputs, options):
        torch.rand(1)
        return graph.forward


class ChangesSettings(Right):
    def compile(self, graph, example_inputs, options):
        torch.set_float32_matmul_precision("high")
        return graph.forward


class OnlyFloats(Right):
    capabilities = Capabilities(dtypes=frozenset({torch.float32, torch.float64}))

    def compile(self, graph, example_inputs, options):
        for value in example_inputs:
            if is_tensor(value) and value.dtype not in self.capabilities.dtypes:
                self.refuse(value.dtype)
        return graph.forward

    def refuse(self, dtype):
        raise UnsupportedGraph(f"no {dtype}", reason=f"the device has no {dtype}")


class SwallowsUnsupportedGraph(OnlyFloats):
    def compile(self, graph, example_inputs, options):
        try:
            return super().compile(graph, example_inputs, options)
        except UnsupportedGraph:
            return graph.forward


class RefusesWithoutReason(OnlyFloats):
    def refuse(self, dtype):
        raise UnsupportedGraph("no")


class SwallowsErrors(Right):
    def compile(self, graph, example_inputs, options):
        def run(*args):
            try:
                return graph.forward(*args)
            except IndexError:
                return graph.forward(args[0], torch.zeros_like(args[1]))

        return run


kept = []


class KeepsInputs(Right):
    def before(self, args):
        kept.append(args)
        return args


class KeepsFirstInputs(Right):
    def compile(self, graph, example_inputs, options):
        first = []

        def run(*args):
            first[:] = first or args
            return graph.forward(*args)

        return run


class GrowsByCompiling(Right):
    def compile(self, graph, example_inputs, options):
        kept.append((torch.zeros(1), torch.zeros(2)))
        return super().compile(graph, example_inputs, options)


class GrowsByCalling(Right):
    def after(self, outputs):
        kept.append([out.detach().clone() for out in outputs])
        return outputs


class OneThreadAtATime(Right):
    def compile(self, graph, example_inputs, options):
        def run(*args):
            self.args = args
            time.sleep(0.0005)
            return graph.forward(*self.args)

        return run


class OneProcess(Right):
    def __init__(self):
        super().__init__()
        self.process = os.getpid()

    def before(self, args):
        if os.getpid() != self.process:
            raise RuntimeError("the device was opened by another process")
        return args


class ClosedForGood(Right):
    closed = False

    def compile(self, graph, example_inputs, options):
        if self.closed:
            raise RuntimeError("closed")
        return graph.forward

    def close(self):
        self.closed = True


class AsksTheHost(Right):
    def before(self, args):
        args[0].sum().item()
        return args


class CopiesToTheHost(Right):
    def after(self, outputs):
        return tuple(out.cpu() if is_tensor(out) else out for out in outputs)


class ManyCalls(Right):
    def before(self, args):
        for _ in range(300):
            is_tensor(args[0])
        return args


class WithoutAutocast(Right):
    def compile(self, graph, example_inputs, options):
        def run(*args):
            with torch.autocast("cpu", enabled=False):
                return graph.forward(*args)

        return run


class NoReasons(Right):
    def supports(self, node, options):
        return Unsupported("") if "relu" in str(node.target) else None


class Saving(Right):
    def compile(self, graph, example_inputs, options):
        return graph

    def cache_key_parts(self, options):
        return {"version": "1", "driver": "2"}

    def save(self, compiled):
        return pickle.dumps(compiled)

    def load(self, data, options):
        return pickle.loads(data)

    def compatible(self, meta):
        return None


class LoadsSomethingElse(Saving):
    def load(self, data, options):
        graph = pickle.loads(data)
        return lambda *args: tuple(out * 2 for out in graph(*args))


class SavingWeights(Saving):
    """Right; weights are constants of what it saves."""

    def __init__(self, weights="frozen"):
        super().__init__()
        self.graph_form = GraphForm(weights=weights)

    def save(self, compiled):
        out = io.BytesIO()
        torch.save([pickle.dumps(compiled), compiled.state_dict()], out)
        return out.getvalue()

    def load(self, data, options):
        text, tensors = torch.load(io.BytesIO(data), weights_only=True)
        graph = pickle.loads(text)
        for name, tensor in self.loaded(tensors).items():
            setattr(graph, name, torch.nn.Parameter(tensor, requires_grad=False))
        return graph

    def loaded(self, tensors):
        return tensors


class LoadsFakes(SavingWeights):
    """As where `torch.load` gives tensors without values."""

    def loaded(self, tensors):
        return {name: tensor.to("meta") for name, tensor in tensors.items()}


class LoadsOtherWeights(SavingWeights):
    def loaded(self, tensors):
        return {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}


class RefitsWhatItLoads(SavingWeights):
    def __init__(self):
        super().__init__("refit")

    def update_weights(self, compiled, tensors):
        for name, tensor in tensors.items():
            setattr(compiled, name, torch.nn.Parameter(tensor.clone(), requires_grad=False))


class RefitsNothingLoaded(RefitsWhatItLoads):
    def update_weights(self, compiled, tensors):
        return compiled


class KeyOfTheMoment(Saving):
    def cache_key_parts(self, options):
        return {"version": "1", "time": str(time.perf_counter())}


class LoadsAnything(Saving):
    def load(self, data, options):
        return lambda *args: args


class Full(Saving):
    """Right, with all the optional methods."""

    options_type = Switch
    modes = {"quick": {"fast": True}}
    fallback_backend = "eager"

    def __init__(self, weights="frozen"):
        super().__init__()
        self.weights = weights

    def available(self):
        return None

    def graph_form(self, options):
        return GraphForm(weights=self.weights)

    def supports(self, node, options):
        return Unsupported("the kit has one that it doesn't do") if "tanh" in str(node.target) else None

    def close(self):
        pass


class Partly(Saving):
    """Right; does some operations, on float32, and leaves the others to the framework."""

    capabilities = Capabilities(dtypes=frozenset({torch.float32}))
    fallback_backend = "eager"
    minimum_part_size = 1
    does = ("add", "mul", "relu", "cat", "reshape")

    def supports(self, node, options):
        if not any(word in str(node.target) for word in self.does):
            return Unsupported("the kit has one that it doesn't do")
        value = node.meta["example_value"]
        assert all("example_value" in argument.meta for argument in node.all_input_nodes)
        return None if value.dtype in self.capabilities.dtypes else Unsupported(self.why(value.dtype))

    def why(self, dtype):
        return f"the device has no {dtype}"

    def compile(self, graph, example_inputs, options):
        for node in graph.graph.nodes:
            if node.op.startswith("call_") and not any(word in str(node.target) for word in self.does):
                raise UnsupportedGraph(f"no {node.target}", node=node.name, reason="it was given what it doesn't do")
        return graph


class RefusesDtypesWithoutReason(Partly):
    def why(self, dtype):
        return ""


class PartlyAnyDtype(Partly):
    """Claims one dtype, and does the others."""

    def supports(self, node, options):
        return None if any(word in str(node.target) for word in self.does) else Unsupported("not done")


class Nothing(Partly):
    """Does nothing of the kit's programs."""

    does = ("digamma",)


class Choosing(Saving):
    """Right; chooses its parts itself."""

    does = Partly.does

    def partition(self, graph, example_inputs, options):
        nodes = [node for node in graph.graph.nodes if node.op.startswith("call_")]
        return [[node] for node in nodes if any(word in str(node.target) for word in self.does)]


class Refitting(Right):
    def graph_form(self, options):
        return GraphForm(weights="refit")

    def compile(self, graph, example_inputs, options):
        return graph

    def update_weights(self, compiled, tensors):
        with torch.no_grad():
            for name, tensor in tensors.items():
                setattr(compiled, name, torch.nn.Parameter(tensor.clone(), requires_grad=False))
        return None


class ForgetsToRefit(Refitting):
    def compile(self, graph, example_inputs, options):
        for name, value in list(graph.named_parameters()):
            setattr(graph, name, torch.nn.Parameter(value.clone(), requires_grad=False))
        return graph

    def update_weights(self, compiled, tensors):
        return None
'''

CLASS = """

class {name}(testing.{tests}):
    @pytest.fixture
    def backend(self):
        return wrong.{backend}
"""

CAUGHT = {
    "NumericsTests::test_dtype": ["WrongInOneDtype()"],
    "NumericsTests::test_rank": ["WrongAtRank4()"],
    "NumericsTests::test_special": ["ForgetsInfinity()"],
    "CallingTests::test_outputs": ["TooFewOutputs()", "NoRank0()"],
    "CallingTests::test_results_are_the_callers": ["ReusesResults()"],
    "MutationTests::test_unchanged_inputs": ["WritesInputs()"],
    "MutationTests::test_changed_input": ["IgnoresChanges()"],
    "WeightTests::test_changed_in_place": ["StaleWeights()"],
    "WeightTests::test_replaced": ["StaleWeights()", "OneModule()"],
    "WeightTests::test_two_modules": ["OneModule()"],
    "WeightTests::test_change_is_told": ["ForgetsToRefit()"],
    "DynamicShapeTests::test_size_as_input": ["BakesSizes()"],
    "OptionTests::test_two_compilations": ["GlobalOptions()"],
    "OptionTests::test_compiling_leaves_settings": ["DrawsWhileCompiling()", "ChangesSettings()"],
    "ErrorTests::test_beyond_dtypes": [
        "SwallowsUnsupportedGraph()",
        "RefusesWithoutReason()",
        "RefusesDtypesWithoutReason()",
        "PartlyAnyDtype()",
    ],
    "ErrorTests::test_error_while_running": ["SwallowsErrors()"],
    "LifeTests::test_inputs_released": ["KeepsInputs()"],
    "LifeTests::test_weights_released": ["KeepsFirstInputs()"],
    "LifeTests::test_compilations_do_not_grow": ["GrowsByCompiling()"],
    "LifeTests::test_calls_do_not_grow": ["GrowsByCalling()"],
    "LifeTests::test_threads_call_at_once": ["OneThreadAtATime()"],
    "LifeTests::test_fork": ["OneProcess()"],
    "LifeTests::test_close": ["ClosedForGood()"],
    "PerformanceSanityTests::test_no_host_copy": ["AsksTheHost()", "CopiesToTheHost()"],
    "PerformanceSanityTests::test_python_calls": ["ManyCalls()"],
    "PartitionTests::test_position": ["IgnoresChanges()"],
    "PartitionTests::test_own_parts": ["NoReasons()"],
    "ArtifactTests::test_found_again": ["LoadsSomethingElse()"],
    "ArtifactTests::test_weights": ["LoadsFakes()", "LoadsOtherWeights()", "RefitsNothingLoaded()"],
    "ArtifactTests::test_key_parts": ["KeyOfTheMoment()"],
    "ArtifactTests::test_damaged_content": ["LoadsAnything()"],
    "CompositionTests::test_autocast": ["WithoutAutocast()"],
    "CaptureTests::test_module": ["StaleWeights()"],
}

PASSED = {
    "ArtifactTests": ["Saving()", "Partly()", "SavingWeights()", "RefitsWhatItLoads()"],
    "OptionTests": ["Full()"],
    "WeightTests": ["Full()", "Refitting()"],
    "LifeTests::test_close": ["Full()"],
    "LoadingTests::test_availability": ["Full()"],
    "PartitionTests": ["Full()", "Partly()"],
    "PartitionTests::test_own_parts": ["Choosing()"],
    "PartitionTests::test_failure_raises": ["Choosing()"],
    "PartitionTests::test_failure_falls_back": ["Choosing()"],
    "ErrorTests": ["OnlyFloats()", "Partly()"],
    "PerformanceSanityTests": ["Right()", "Partly()", "Choosing()"],
    "CaptureTests::test_not_compiled_again": ["Partly()"],
}

SKIPPED = {
    "PartitionTests::test_failure_raises": ["Nothing()"],
    "PartitionTests::test_failure_falls_back": ["Nothing()"],
    "ArtifactTests::test_found_again": ["Nothing()"],
    "ArtifactTests::test_truncated": ["Nothing()"],
}


def run_all(pytester: pytest.Pytester, cases: dict[str, list[str]]) -> dict[str, collections.Counter[str]]:
    """Run each test on each of its backends, in one session; the outcomes by test and backend."""
    text, selected, names = "import pytest\nfrom graphwright_plugins import testing\nimport wrong\n", [], {}
    for test, backends in cases.items():
        tests, _, method = test.partition("::")
        for backend in backends:
            name = f"Test{len(names)}"
            names[name] = f"{test} on {backend}"
            text += CLASS.format(name=name, tests=tests, backend=backend)
            selected.append("::".join(filter(None, ("test_all.py", name, method))))
    pytester.makepyfile(wrong=BACKENDS, test_all=text)
    pytester.syspathinsert()
    plugins = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:logging", "--tb=line")
    result = pytester.inline_run("-q", *plugins, *selected)
    found: dict[str, collections.Counter[str]] = {case: collections.Counter() for case in names.values()}
    for outcome, reports in zip(("passed", "skipped", "failed"), result.listoutcomes(), strict=True):
        for report in reports:
            case = found[names[report.nodeid.split("::")[1]]]
            case[outcome if report.when == "call" or outcome == "skipped" else f"{outcome} in {report.when}"] += 1
    return found


def test_wrong_backends_are_caught(pytester: pytest.Pytester) -> None:
    found = run_all(pytester, CAUGHT)
    missed = {case: dict(outcomes) for case, outcomes in found.items() if not outcomes["failed"]}
    assert missed == {}
    broken = {case: dict(outcomes) for case, outcomes in found.items() if outcomes.keys() - {"passed", "failed"}}
    assert broken == {}


def test_right_backends_pass(pytester: pytest.Pytester) -> None:
    found = run_all(pytester, PASSED)
    wrong = {case: dict(outcomes) for case, outcomes in found.items() if outcomes.keys() - {"passed", "skipped"}}
    assert wrong == {}
    idle = [case for case, outcomes in found.items() if not outcomes["passed"]]
    assert idle == []


def test_what_a_backend_gets_nothing_of_is_skipped(pytester: pytest.Pytester) -> None:
    found = run_all(pytester, SKIPPED)
    assert {case: set(outcomes) for case, outcomes in found.items()} == {case: {"skipped"} for case in found}


def test_the_kit_has_all_themes() -> None:
    classes = [value for name, value in vars(ConformanceKit).items() if name.startswith("Test")]
    assert {tests.theme for tests in classes} == set(Theme)
    module = sys.modules["graphwright_plugins.testing"]
    exported = {name for name in module.__all__ if name.endswith("Tests") and name != "ConformanceTests"}
    assert {tests.__mro__[1].__name__ for tests in classes} == exported
