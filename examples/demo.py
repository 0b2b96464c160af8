"""Compile a small transformer and a training step, and show what happened: ``tox run -e demo``.

Prints the graphs, the guards, what was compared with plain PyTorch, and the time per call of both. Exits with 1 if a
comparison failed.
"""

from __future__ import annotations

import copy
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

import graphwright

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 100, 32, 4, 2, 16, 4
TRAINING_STEPS = 3
SHOWN_GUARDS = 12


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = [t.view(batch, length, HEADS, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1)]
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed: torch.Tensor = self.out(y.transpose(1, 2).reshape(batch, length, width))
        return mixed


class Block(nn.Module):
    """Attention, then a two-layer perceptron, each with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class Transformer(nn.Module):
    """A decoder of two blocks that predicts the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(x)
        return logits


def loss_of(model: nn.Module, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    logits = model(tokens)
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Checks:
    """Comparisons with eager: prints each, remembers whether all held."""

    def __init__(self) -> None:
        self.all_held = True

    def same(self, what: str, found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
        held = len(found) == len(expected) and all(
            a.dtype == b.dtype and a.stride() == b.stride() and torch.equal(a, b)
            for a, b in zip(found, expected, strict=True)
        )
        self.report(f"{what}: same bits, dtypes and strides as eager (tensors: {len(found)})", held)

    def report(self, what: str, held: bool) -> None:
        self.all_held = self.all_held and held
        print(f"  {'ok   ' if held else 'WRONG'}  {what}")


def title(text: str) -> None:
    print(f"\n=== {text} {'=' * (100 - len(text))}")


def time_per_call_us(call: Callable[[], object], calls: int = 30, rounds: int = 5) -> float:
    """Median over rounds, in microseconds."""
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times) * 1e6


def print_times(what: str, eager: Callable[[], object], compiled: Callable[[], object]) -> None:
    print(f"  {what}: eager {time_per_call_us(eager):.0f} µs, compiled {time_per_call_us(compiled):.0f} µs a call")


def show_capture(model: nn.Module, tokens: torch.Tensor) -> None:
    explanation = graphwright.explain(model)(tokens)
    title(f"The graph (graphs: {explanation.graph_count}, breaks: {explanation.graph_break_count})")
    for graph_module in explanation.graphs:
        print(graph_module.graph)
    for reason in explanation.break_reasons:
        print(f"break: {reason}")
    step = max(1, len(explanation.guards) // SHOWN_GUARDS)
    title(f"The guards: the compiled code runs while all {len(explanation.guards)} hold; here is one in {step}")
    for guard in explanation.guards[::step]:
        print(f"  {str(guard)[:118]}")


def show_inference(model: nn.Module, tokens: torch.Tensor, checks: Checks) -> None:
    title("Inference, backend eager")
    compiled = graphwright.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        checks.same("first call (captures)", [compiled(tokens)], [model(tokens)])
        checks.same("second call (cached)", [compiled(tokens)], [model(tokens)])
        checks.same("shorter input", [compiled(tokens[:, :8])], [model(tokens[:, :8])])
        print_times("forward", lambda: model(tokens), lambda: compiled(tokens))


def train_step(
    loss_function: Callable[..., torch.Tensor],
    model: nn.Module,
    tokens: torch.Tensor,
    targets: torch.Tensor,
    rate: float,
) -> torch.Tensor:
    """One step of gradient descent with a loss function that may be compiled."""
    model.zero_grad(set_to_none=True)
    loss = loss_function(model, tokens, targets)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(rate * parameter.grad)
    return loss.detach()


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def show_training(model: nn.Module, tokens: torch.Tensor, targets: torch.Tensor, checks: Checks) -> None:
    title("Training, backend aot_eager (forward and backward graphs)")
    compiled_loss = graphwright.compile(loss_of, backend="aot_eager", fullgraph=True)
    plain, compiled = copy.deepcopy(model), copy.deepcopy(model)
    for step in range(TRAINING_STEPS):
        expected = train_step(loss_of, plain, tokens, targets, rate=0.1)
        found = train_step(compiled_loss, compiled, tokens, targets, rate=0.1)
        checks.same(
            f"step {step}: loss {found.item():.4f}, gradients",
            [found, *gradients(compiled)],
            [expected, *gradients(plain)],
        )
    checks.same("parameters after training", list(compiled.parameters()), list(plain.parameters()))
    print_times(
        "training step",
        lambda: train_step(loss_of, plain, tokens, targets, rate=0.0),
        lambda: train_step(compiled_loss, compiled, tokens, targets, rate=0.0),
    )


def show_mutation(checks: Checks) -> None:
    title("Side effects, backend eager")

    def remember(x: torch.Tensor, seen: list[torch.Tensor], counts: dict[str, int]) -> torch.Tensor:
        y = x.sin() + len(seen)
        seen.append(y)
        counts["calls"] += 1
        x.add_(1)
        return y

    compiled = graphwright.compile(remember, backend="eager", fullgraph=True)
    outcomes = []
    for function in (remember, compiled):
        x, counts = torch.arange(3.0), {"calls": 0}
        seen: list[torch.Tensor] = []
        y = function(x, seen, counts)
        outcomes.append(([x, y, *seen], counts, seen[0] is y))
    (expected, *plain_rest), (found, *compiled_rest) = outcomes
    checks.same("result, changed input, appended list", found, expected)
    checks.report(f"dict and identity: {compiled_rest}", compiled_rest == plain_rest)


def main() -> int:
    torch.manual_seed(0)
    model = Transformer().eval()
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH))
    targets = torch.randint(VOCABULARY, (BATCH, LENGTH))
    checks = Checks()
    print(f"graphwright {graphwright.__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    show_capture(model, tokens)
    show_inference(model, tokens, checks)
    show_training(model.train(), tokens, targets, checks)
    show_mutation(checks)
    title("Every comparison with eager held" if checks.all_held else "A comparison with eager FAILED")
    return 0 if checks.all_held else 1


if __name__ == "__main__":
    sys.exit(main())
