"""The signature that capture gives each graph it hands to a backend."""

import pytest
import torch

import graphwright
from graphwright_plugins import (
    Capabilities,
    GraphForm,
    GraphKind,
    InputKind,
    SymbolicNumber,
    Unsupported,
    aot_compile,
    signature_of,
)

GLOBAL = torch.ones(3)


class Recorder:
    def __init__(self):
        self.signatures = []

    def __call__(self, graph, example_inputs):
        self.signatures.append(signature_of(graph))
        return graph.forward


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)])
        self.scale = torch.ones(3)

    def forward(self, x, batch):
        for layer in self.layers:
            x = layer(x)
        batch["seen"].add_(1)
        return x * self.scale + batch["bias"] + GLOBAL


def run(fn, *args, **how):
    record = Recorder()
    graphwright.compile(fn, backend=record, **how)(*args)
    return record.signatures


def test_inputs_are_named_in_the_programs_terms():
    (signature,) = run(Model(), torch.ones(4, 3), {"bias": torch.ones(3), "seen": torch.zeros(())})
    by_source = {entry.source: entry for entry in signature}
    kinds = {source: entry.kind for source, entry in by_source.items()}
    assert signature.kind is GraphKind.CAPTURED
    assert kinds["L['x']"] is InputKind.USER_INPUT
    assert kinds["L['batch']['bias']"] is InputKind.USER_INPUT
    assert kinds["L['self'].layers.0.weight"] is InputKind.PARAMETER
    assert kinds["L['self'].layers.1.running_mean"] is InputKind.BUFFER
    assert kinds["L['self'].scale"] is InputKind.CONSTANT
    assert kinds["G['GLOBAL']"] is InputKind.CONSTANT
    targets = {entry.target for entry in signature if entry.target}
    assert targets == set(Model().state_dict())
    assert {entry.target for entry in signature if entry.static_address} == targets
    mutated = {entry.source.rpartition(".")[2] for entry in signature if entry.mutated}
    assert mutated == {"num_batches_tracked", "running_mean", "running_var", "L['batch']['seen']"}


def test_statistics_of_a_batch_norm_in_eval_are_not_written():
    (signature,) = run(Model().eval(), torch.ones(4, 3), {"bias": torch.ones(3), "seen": torch.zeros(())})
    assert [entry.source for entry in signature if entry.mutated] == ["L['batch']['seen']"]


@pytest.mark.parametrize(
    "make", [torch.nn.BatchNorm1d, lambda n: torch.nn.InstanceNorm1d(n, True, track_running_stats=True)]
)
def test_normalising_layers_keep_their_statistics_as_in_eager(make):
    torch.manual_seed(0)
    module, reference = make(3), make(3)
    x = torch.randn(4, 3, 5)
    compiled = graphwright.compile(module, backend="aot_eager")
    for training in (True, False, True):
        module.train(training)
        reference.train(training)
        torch.testing.assert_close(compiled(x), reference(x))
        torch.testing.assert_close(module.state_dict(), reference.state_dict())


def test_numbers_symbols_and_aliases():
    def fn(x, y, n):
        return (x + n, x, y.view(-1), x)

    base = torch.ones(8, 3)
    (signature,) = run(fn, base[:4], base[4:], 3, dynamic=True)
    by_source = {entry.source: entry for entry in signature}
    size = by_source["L['x']"].tensor.shape[0]
    assert isinstance(size, SymbolicNumber)
    assert size.least == 2
    assert by_source["L['n']"].kind is InputKind.NUMBER
    assert by_source["L['n']"].number.symbols
    assert by_source["L['x']"].alias_group == by_source["L['y']"].alias_group is not None
    view = signature.outputs[-1]
    assert signature.inputs[view.aliases_input].source in ("L['x']", "L['y']")


def test_a_mark_makes_an_address_static():
    x, y = torch.ones(3), torch.ones(3)
    graphwright.mark_static_address(x)
    (signature,) = run(lambda x, y: x + y, x, y)
    assert [entry.static_address for entry in signature] == [True, False]


def test_a_piece_says_why_it_ended_and_where():
    def fn(x):
        x = x + 1
        print("between")
        return x * 2

    first, second = run(fn, torch.ones(3))
    assert not first.extent.is_whole
    assert first.extent.break_id == "GW0012"
    assert "print" in first.extent.why_ended
    assert first.extent.ended_at == f"{__file__}:{fn.__code__.co_firstlineno + 2}"
    assert not first.extent.starts_midway
    assert second.extent.starts_midway
    assert not second.extent.is_whole
    (whole,) = run(lambda x: x + 1, torch.ones(3))
    assert whole.extent.is_whole


def test_graphs_of_aot_inherit_what_capture_knows():
    parts = []

    def backend(graph, example_inputs):
        def compiler(graph, example_inputs):
            parts.append(signature_of(graph))
            return graph.forward

        return aot_compile(graph, example_inputs, compiler)

    compiled = graphwright.compile(Model(), backend=backend)
    compiled(torch.ones(4, 3), {"bias": torch.ones(3), "seen": torch.zeros(())}).sum().backward()
    forward, backward = parts
    assert {entry.target for entry in forward if entry.target} == set(Model().state_dict())
    carried = {
        forward.inputs[output.carries_mutation_of].source.rpartition(".")[2]
        for output in forward.outputs
        if output.carries_mutation_of is not None
    }
    assert carried == {"num_batches_tracked", "running_mean", "running_var", "L['batch']['seen']"}
    gradients = {
        forward.inputs[output.gradient_of].target for output in backward.outputs if output.gradient_of is not None
    }
    assert gradients == {"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"}
    assert any(entry.static_address and entry.saved_output is not None for entry in backward)


class Cutting:
    """A backend without `sin` and `cos`, which notes the signatures of the parts that it gets."""

    name = "cutting"
    capabilities = Capabilities()

    def __init__(self, form=None):
        self.signatures = []
        if form is not None:
            self.graph_form = lambda options: form

    def supports(self, node, options):
        return Unsupported("no such unit") if any(name in str(node.target) for name in ("sin", "cos")) else None

    def compile(self, graph, example_inputs, options):
        self.signatures.append(signature_of(graph))
        return graph.forward


class Cut(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        first = x * self.weight
        self.seen.add_(1)
        middle = torch.sin(first)
        return middle + self.seen, middle.shape[0] * middle, first


def cut_signatures(form=None, *, train=False, **how):
    backend = Cutting(form)
    results = graphwright.compile(Cut(), backend=backend, **how)(torch.ones(4, 3))
    if train:
        torch.stack([result.sum() for result in results]).sum().backward()
    return backend.signatures


def test_parts_of_a_cut_graph_know_what_the_whole_knows():
    before, after = cut_signatures()
    assert before.part_of is after.part_of
    assert before.kind is GraphKind.CAPTURED
    assert before.extent.is_whole
    assert {e.source: (e.kind, e.target, e.static_address, e.mutated) for e in before} == {
        "L['x']": (InputKind.USER_INPUT, "", False, False),
        "L['self'].weight": (InputKind.PARAMETER, "weight", True, False),
        "L['self'].seen": (InputKind.BUFFER, "seen", True, True),
    }
    by_kind = {entry.kind: entry for entry in after}
    assert set(by_kind) == {InputKind.INTERMEDIATE, InputKind.BUFFER}
    assert by_kind[InputKind.BUFFER].source == "L['self'].seen"
    assert not by_kind[InputKind.BUFFER].mutated  # by this part
    assert by_kind[InputKind.INTERMEDIATE].source == ""
    whole = before.part_of
    for part in (before, after):
        for entry in part:
            if entry.original is not None:
                assert whole.inputs[entry.original].source == entry.source
    assert sorted(o.original for part in (before, after) for o in part.outputs if o.original is not None) == [0, 1, 2]


def test_parts_of_dynamic_graphs_have_symbols():
    before, after = cut_signatures(dynamic=True)
    (intermediate,) = [entry for entry in after if entry.kind is InputKind.INTERMEDIATE]
    assert isinstance(intermediate.tensor.shape[0], SymbolicNumber)
    assert intermediate.tensor.shape[0].symbols == before.inputs[0].tensor.shape[0].symbols
    assert not any(entry.kind is InputKind.INTERMEDIATE for entry in before)


def test_parts_of_a_backward_graph_are_tied_to_it():
    signatures = cut_signatures(GraphForm(level="aten"), train=True)
    forward = [part for part in signatures if part.kind is GraphKind.FORWARD]
    backward = [part for part in signatures if part.kind is GraphKind.BACKWARD]
    assert forward
    assert backward
    for part in backward:
        assert part.part_of.forward is forward[0].part_of
        for entry in part:
            if entry.kind is InputKind.SAVED:
                assert part.part_of.forward.outputs[entry.saved_output].saved
            if entry.kind is InputKind.TANGENT:
                assert entry.tangent_of is not None
    whole = backward[0].part_of
    gradients = {o.gradient_of for part in backward for o in part.outputs} - {None}
    assert gradients <= {output.gradient_of for output in whole.outputs}
    assert gradients
