"""A saved graph, and a backend alone on it."""

from __future__ import annotations

import operator
import runpy
import sys
from pathlib import Path

import pytest
import torch
from torch import fx

from graphwright_plugins import Capabilities, NotSavable, load_graph, save_graph
from graphwright_plugins.replay.run import main, replay
from graphwright_plugins.torch_compat import as_fake, as_symbolic, new_fake_mode, set_grad_enabled, tracing_context


class Backend:
    """Does what it is told."""

    name = "told"
    capabilities = Capabilities()

    def __init__(self, compile):
        self.compile = lambda graph, inputs, options: compile(graph, inputs)


def every_kind_of_node() -> fx.GraphModule:
    graph = fx.Graph()
    x, w, n = (graph.placeholder(name) for name in "xwn")
    graph.call_function(set_grad_enabled, (False,))
    y = graph.call_function(torch.sin, (x,))
    graph.call_function(set_grad_enabled, (True,))
    y = graph.call_function(operator.add, (y, float("inf")))
    y = graph.call_method("clamp", (y,), {"max": 0.1})
    y = graph.call_function(torch.ops.aten.mul.Tensor, (y, w))
    z = graph.call_function(torch.nn.functional.gelu, (y,), {"approximate": "tanh"})
    r = graph.call_function(torch.rand, (2, 3), {"dtype": torch.float64, "device": torch.device("cpu")})
    row = graph.call_function(operator.getitem, (w, (Ellipsis, slice(None, 2, None), None)))
    held = graph.get_attr("held")
    body = graph.get_attr("body")
    graph.call_method("add_", (w, held))
    m = graph.call_method("view", (z, n, -1))
    graph.output((y, z, r, row, m, None, 3))
    root = torch.nn.Module()
    root.register_buffer("held", torch.full((3,), 2.0))
    root.body = fx.symbolic_trace(lambda a: torch.cos(a) + 1)
    del body
    return fx.GraphModule(root, graph)


def inputs() -> list:
    return [torch.randn(2, 3, requires_grad=True), torch.randn(3, 2).t(), 2]


def test_a_graph_comes_back_as_it_was(tmp_path: Path) -> None:
    graph, given = every_kind_of_node(), inputs()
    with torch.no_grad():
        save_graph(tmp_path, graph, given, backend="eager", options={"depth": 3}, inputs=given)
    saved = load_graph(tmp_path)
    ours = [(n.op, n.target, n.args, n.kwargs) for n in saved.graph.graph.nodes]
    theirs = [(n.op, n.target, n.args, n.kwargs) for n in graph.graph.nodes]
    assert repr(ours) == repr(theirs)
    assert saved.options == {"depth": 3}
    assert not saved.state.grad_enabled
    assert torch.equal(saved.graph.held, graph.held)
    assert torch.equal(saved.graph.body(torch.ones(1)), graph.body(torch.ones(1)))
    got = replay(tmp_path, Backend(lambda graph, inputs: graph.forward))
    assert got.outcome == "same", got
    assert torch.equal(saved.values[0], given[0])


def test_a_graph_that_returns_no_tuple_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    with pytest.raises(NotSavable, match=r"the graph returns mul, and a backend's graphs return a tuple"):
        save_graph(folder, fx.symbolic_trace(lambda x: x * 2), [torch.randn(3)])
    assert not folder.exists()


def test_a_wrong_backend_is_caught(tmp_path: Path) -> None:
    graph = fx.symbolic_trace(lambda x: (x.add_(1), x * 2))
    save_graph(tmp_path, graph, [torch.randn(3)])
    assert replay(tmp_path, Backend(lambda g, i: g.forward)).outcome == "same"
    wrong = replay(tmp_path, Backend(lambda g, i: lambda x: [out + 1 for out in g.forward(x)]))
    assert wrong.outcome == "differs"
    assert "output 0" in wrong.detail
    lost = replay(tmp_path, Backend(lambda g, i: lambda x: g.forward(x.clone())))
    assert lost.outcome == "differs"
    assert "input 0 after the call" in lost.detail

    def refuse(graph, inputs):
        raise ValueError("no such kernel")

    failed = replay(tmp_path, Backend(refuse))
    assert failed.outcome == "failed to compile"
    assert "no such kernel" in str(failed)
    assert replay(tmp_path, Backend(lambda g, i: lambda x: 1 / 0)).outcome == "failed to run"


def test_symbolic_sizes_strides_and_shared_memory_come_back(tmp_path: Path) -> None:
    mode = new_fake_mode()
    x = as_symbolic(mode, torch.randn(5, 4).t(), [1])
    base = torch.zeros(6)
    graph = fx.symbolic_trace(lambda x, a, b: (x * 2, a.add_(1), b + 1))
    save_graph(tmp_path, graph, [x, base[:4], base[2:]])
    seen = []

    def look(graph, inputs):
        seen.extend(inputs)
        return graph.forward

    assert replay(tmp_path, Backend(look)).outcome == "same"
    assert isinstance(seen[0].shape[1], torch.SymInt)
    assert seen[0].shape[0] == 4
    assert seen[0].stride(0) == 1
    assert seen[1].untyped_storage()._cdata == seen[2].untyped_storage()._cdata
    assert seen[2].storage_offset() == 2


def test_a_backend_that_compiles_may_save_and_replay(tmp_path: Path) -> None:
    graph = fx.symbolic_trace(lambda x: (x + 1,))
    graph.register_buffer("held", torch.arange(3.0))
    with graph.graph.inserting_before(graph.graph.output_node()):
        graph.graph.output_node().args = ((graph.graph.call_function(torch.add, (graph.graph.get_attr("held"), 1)),),)
    mode = new_fake_mode()
    examples = [as_fake(mode, torch.ones(3))]
    with tracing_context(mode):
        save_graph(tmp_path, graph, examples)
        assert replay(tmp_path, Backend(lambda g, i: g.forward)).outcome == "same"
        assert load_graph(tmp_path).graph.held.tolist() == [0.0, 1.0, 2.0]


def test_what_has_no_name_is_refused(tmp_path: Path) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(lambda t: t, (x,)),))
    with pytest.raises(NotSavable, match="node _lambda_ can't be saved"):
        save_graph(tmp_path, fx.GraphModule(torch.nn.Module(), graph), [torch.ones(1)])


def test_the_command_line(tmp_path: Path, capsys, monkeypatch) -> None:
    save_graph(tmp_path, fx.symbolic_trace(lambda x: (x + 1,)), [torch.randn(3)], backend="eager")
    assert main([str(tmp_path)]) == 0
    assert "outcome: same" in capsys.readouterr().out
    assert main([str(tmp_path), "--backend", "aot_eager", "--option", "partition='default'", "--no-run"]) == 0
    monkeypatch.setattr(sys, "argv", ["replay", str(tmp_path), "--backend", "eager"])
    with pytest.raises(SystemExit) as left, pytest.warns(RuntimeWarning, match="found in sys.modules"):
        runpy.run_module("graphwright_plugins.replay", run_name="__main__")
    assert left.value.code == 0
    assert "backend 'eager'" in capsys.readouterr().out


def test_inputs_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    graph = fx.symbolic_trace(lambda x: (x + 1,))
    with pytest.raises(ValueError, match=r"input 0 is a torch.float32 of \(2,\)"):
        save_graph(tmp_path, graph, [torch.ones(3)], inputs=[torch.ones(2)])
    with pytest.raises(ValueError, match="2 inputs were given"):
        save_graph(tmp_path, graph, [torch.ones(3)], inputs=[torch.ones(3)] * 2)


def test_a_folder_without_a_saved_graph_is_said_to_be_none(tmp_path: Path, capsys) -> None:
    save_graph(tmp_path / "cut", fx.symbolic_trace(lambda x: (x + 1,)), [torch.ones(3)], backend="eager")
    save_graph(tmp_path / "text", fx.symbolic_trace(lambda x: (x + 1,)), [torch.ones(3)], backend="eager")
    (tmp_path / "cut/tensors.pt").write_bytes(b"cut")
    (tmp_path / "text/graph.json").write_text("[1, 2")
    for folder, words in {
        "none": "it isn't there. Name a folder that save_graph made",
        ".": "it holds no graph.json",
        "text": "graph.json is missing or damaged (JSONDecodeError",
        "cut": "tensors.pt is missing or damaged",
        "cut/tensors.pt": "it is no folder",
    }.items():
        assert main([str(tmp_path / folder)]) == 2
        told = capsys.readouterr().err
        assert told.startswith("no replay: ")
        assert words in told


def test_what_the_command_line_names_wrongly_is_said(tmp_path: Path, capsys) -> None:
    save_graph(tmp_path, fx.symbolic_trace(lambda x: (x + 1,)), [torch.ones(3)], backend="eager")
    assert main([str(tmp_path), "--backend", "egaer"]) == 2
    assert "Did you mean 'eager'" in capsys.readouterr().err
    assert main([str(tmp_path), "--option", "depht=1"]) == 2
    assert "no replay: backend 'eager' has no option 'depht'" in capsys.readouterr().err
