"""Templates of expressions by type.

In a template `$T` is an expression of type T, `$=T` a variable of type T, `$1` the text put in for the first of these.
Types: T float tensor, B bool tensor, I int, F float, S str, K bool, L list of ints, LT list of tensors, DT and DI dicts
of tensors and of ints with string keys, P (tensor, int) tuple, SE set of ints, O a Box, FN function from tensor to
tensor. What may grow without end in a loop is cut.
"""

from __future__ import annotations

PLAIN: dict[str, tuple[str, ...]] = {
    "T": (
        "$=T", "$=T", "$=T", "$=T", "($T + $T)", "($T * $F)", "($T - $T)", "($T * $T)", "($T + $I)", "torch.relu($T)",
        "torch.sin($T)", "(-$T)", "$T.abs()", "$T.clamp(-1.0, 1.0)", "torch.where($B, $T, $T)", "torch.maximum($T, $T)",
        "($T.sum() + $=T)", "$T.mean()", "$T.sum(-1, keepdim=True)", "$T[:1]", "$T[..., :1]", "$T[$I % 1 - 1]",
        "$T.clone()",
        "$T.detach()", "$T.t().t()", "($T.reshape(-1)[0] * $=T)", "$=T.view($1.shape)", "torch.zeros_like($T)",
        "torch.full_like($T, $F)", "torch.stack([$=T, $1]).sum(0)", "torch.cat([$=T, $1])[:2]", "($T / 2)", "($T ** 2)",
        "(($=T @ $1.t()).sum() - $T)", "$T.to(torch.float64)", "$T.float()", "torch.ones($I % 2 + 1, 3)",
        "torch.arange(3.0)",
        "torch.tensor([1.0, $F, 0.5])", "torch.tensor($I)", "[*$LT, $T][0]", "[$T, *$LT][-1]", "$DT['a']",
        "$DT.get('b', $T)", "$P[0]",
        "$O.x", "$O.scale($T)", "$=O($T)", "$O.absorb($T).x", "helper($T, $I)", "helper($T)", "sum($LT)", "$FN($T)",
        "(lambda t: t * $F)($T)", "($T if $K else $T)", "getattr($O, 'x')", "torch.softmax($T, -1)",
        "torch.rand_like($T)", "$T.unsqueeze(0)[0]", "$=T.masked_fill($1 > $F, $F)", "$T.sort().values",
        "$T.cummax(0).values", "$T.max(0).values", "$T[torch.tensor([$I % 2])]",
        "$T.split(1)[0]", "torch.nn.functional.gelu($T)", "helper(t=$T, n=$I)", "$B.float()", "Box.plus($T, $T)",
        "(spare := $T)", "torch.add($T, $T, alpha=$I)", "$=T.expand_as($1)", "$=T.mul_($F)", "$=T.add_($=T)",
        "helper(*($T, $I))", "helper(*[$T], **{'n': $I})", "functools.reduce(lambda a, b: a + b, $LT)",
        "functools.partial(helper, n=$I)($T)", "max($T.shape[-1:], default=0) * $T", "Pair($T, $I).left",
        "next(iter($LT), $T)", "operator.mul($T, $T)", "($T + $=T.T.T)", "$T.transpose(0, -1).transpose(0, -1)",
        "($T.flatten().sum() - $T)", "$T.squeeze()", "$T[0]", "$T.sum()",
    ),
    "B": ("($T > $F)", "($T > 0)", "$T.isnan()", "($T == $T)", "(~($T < $F))", "(($T > 0) & ($T < 1))"),
    "I": (
        "$=I", "$=I", "0", "1", "2", "3", "-1", "($I + $I)", "($I - $I)", "(($I * $I) % 11)", "($I // ($I % 3 + 4))",
        "($I % 3)", "($I // 2)", "(-$I)", "$T.shape[:1].numel()", "$T.shape[-1:][-1]", "$T.size(-1)", "$T.dim()",
        "len($L)",
        "len($S)", "$T.numel()", "sum($L)", "max($I, $I)", "min($I, $I)", "abs($I)", "int($F)", "len($DT)",
        "$DI.get('n', $I)", "$DI['a']", "$O.n", "$O.double", "$O.bump() % 7", "$O[0]", "len($O)", "[*$L, 2][0]",
        "[1, *$L][-1]",
        "[*$L, 3, 4, 5][$I % 3]", "($I if $K else $I)", "round($F)", "($I & $I)", "($I ^ 3)", "$P[1]", "len($SE)",
        "Box.count() % 7",
        "len(max([$S, $S], key=len))", "$L.count($I)", "[*$L, 4].index(4)", "int($K)", "sum(i for i in $L if i > $I)",
        "sum(count_to($I % 4, $I))", "($=L.pop() if $1 else $I)", "Pair($T, $I).right", "(lambda i, k=$I: i + k)($I)",
        "hash($I) % 5",
        "next(iter($L), $I)", "divmod($I, 3)[1]", "int('4' + str($I))", "ord(($S + 'z')[0]) % 9", "$T.stride()[-1]",
        "next((i for i in $L if i > $I), -1)", "Deep($T, $I).late", "pow($I % 4, 2)", "sum(map(len, [$S, $L]))",
    ),
    "F": (
        "0.5", "2.0", "-1.5", "float($I)", "($F + $F)", "(($F * $I) % 7.5)", "round($F, 1)", "($I / ($I % 3 + 4))",
        "math.sqrt(abs($F))", "($F if $K else $F)", "max($F, $F)", "($I / 4)", "math.floor($F) * 0.5", "abs($F)",
    ),
    "S": (
        "$=S", "'a'", "'b'", "'n'", "f'{$=I}-{$=F:.2f}'", "($S + $S)[:8]", "$S.upper()", "$S[::-1]", "($S * 2)[:6]",
        "str($I)", "repr($L)[:9]", "','.join([$S, $S])[:8]", "$S.replace('a', 'q')", "str($T.dtype)[6:9]",
        "type($=ANY).__name__", "f'{$=T.shape}'", "'%d %s' % ($I, $S)", "'{}!'.format($S)[:9]", "f'{$=S!r:>5}'[:9]",
        "next(iter($DT))", "sorted($DI)[0]", "($S + 'zz')[$I % 2]", "f'{$=L}'[:9]", "' '.join(str(i) for i in $L)[:9]",
    ),
    "K": (
        "$=K", "True", "False", "($I < $I)", "($I == $I)", "($S == $S)", "($I in $L)", "($S in $DT)", "($K and $K)",
        "($K or $K)", "(not $K)", "isinstance($=ANY, torch.Tensor)", "isinstance($=ANY, (int, list))", "($=T is $=T)",
        "($=ANY is $=ANY)", "$T.requires_grad", "($T.dtype == torch.float32)", "($T.shape == $T.shape)", "bool($L)",
        "torch.is_tensor($=ANY)", "hasattr($O, $S)", "(0 < $I < 3)", "callable($=ANY)", "($I not in $SE)",
        "any(i > $I for i in $L)", "all($L)", "($L == $L)", "torch.is_grad_enabled()", "($=L is $=L)", "($=O is $=O)",
        "($=ANY is None)", "$T.is_contiguous()", "$S.startswith($S)", "($SE <= $SE)", "(type($=ANY) is Box)",
    ),
    "L": (
        "$=L", "$=L", "[]", "[$I]", "[$I, $I]", "list(range($I % 4))", "[i * 2 for i in $L][:6]", "sorted($L)",
        "($L + $L)[:6]", "$L[:2]", "$L[::-1]", "[i for i in $L if i > $I]", "list($SE)", "list(reversed($L))",
        "list(map(lambda i: i + $I, $L))", "[a - b for a, b in zip($L, $L)]", "[i for i, v in enumerate($L)]",
        "$O.items", "list($T.shape)", "[*$L, $I][:6]", "list($DI.values())", "[len(k) for k in $DT]",
        "[(j := i + 1) for i in $L]", "list(count_to($I % 4, $I))", "[i + j for i in $L[:2] for j in $L[:2]]",
        "list(filter(lambda i: i % 2, $L))", "sorted($L, key=lambda i: -i)", "list(itertools.chain($L[:3], $L[:3]))",
        "list(itertools.accumulate($L))[:5]", "[i for i in itertools.islice(itertools.count($I), 3)]", "G_L",
        "[x for x in ($I, $I)]", "list(dict.fromkeys($L))",
    ),
    "LT": (
        "$=LT", "[$T]", "[$T, $T]", "[t + 1 for t in $LT][:3]", "list($T.unbind(-1))", "($LT + $LT)[:4]", "([$=T] * 2)",
        "list($DT.values())", "[t * i for i, t in enumerate($LT)]", "list(map(torch.relu, $LT))",
        "list(count_to(2, $T))",
        "[helper(t) for t in $LT]", "list($T.split(1))[:3]", "[row for row in $T][:2]",
    ),
    "DT": (
        "$=DT", "{'a': $T}", "{'a': $T, $S: $T}", "dict(a=$T, b=$T)", "{k: v + 1 for k, v in $DT.items()}",
        "{**$DT, 'b': $T}", "$DT.copy()", "($DT | $DT)", "{str(i): t for i, t in enumerate($LT)}",
        "collections.OrderedDict(a=$T)", "dict(zip([$S, $S], $LT))",
    ),
    "DI": (
        "$=DI", "{'a': $I}", "{'n': $I, $S: $I}", "{k: len(k) for k in $DT}", "dict($DI, a=$I)", "($DI | $DI)", "G_D",
        "{**$DI}", "collections.Counter($S)", "{k: v for k, v in sorted($DI.items())}", "vars(Pair).get('zz', $DI)",
    ),
    "P": ("$=P", "($T, $I)", "([*$LT, $T][0], $I)", "Pair($T, $I)", "tuple([$T, $I])", "$P[::1]"),
    "SE": ("$=SE", "{$I}", "set($L)", "($SE | $SE)", "($SE & $SE)", "{i % 2 for i in $L}", "($SE - $SE)",
    "($SE ^ {1})"),
    "O": ("$=O", "$=O", "Box($T, $I)", "Deep($T, $I)", "($O if $K else $O)", "copy.copy($O)"),
    "FN": (
        "$=FN", "torch.relu", "(lambda t: t + $F)", "(lambda t, k=$I: t * k)", "functools.partial(helper, n=$I)",
        "helper", "$O.scale", "$=O", "make_adder($I)", "[torch.sin, torch.cos][$I % 2]",
    ),
    "X": ("ValueError", "KeyError", "IndexError", "TypeError", "ZeroDivisionError", "RuntimeError", "Sorry",
    "Exception"),
}  # fmt: skip
"""Expressions that can be captured, simplest first."""

BREAKING: dict[str, tuple[str, ...]] = {
    "T": (
        "opaque($T, $I)", "opaque($T)", "opaque_call($FN, $T)", "opaque_call(lambda t: t * $F, $T)",
        "($T if $T.sum() > 0 else $T)", "helper(opaque($T), $I)", "(opaque($T) + $T)", "torch.tensor($T.tolist())",
        "max($T.sum(), $T.mean())", "torch.stack([opaque(t) for t in [$=T, $1]]).sum(0)", "$T[$T[..., 0].isnan()]",
    ),
    "I": (
        "int($T.sum().clamp(-9, 9))", "$T.argmax().item()", "opaque_append($=L, $I)", "opaque_bump($O)",
        "len($T.nonzero())", "int($B.sum())", "sum($T.gt(0).sum(-1).flatten().tolist())",
    ),
    "F": ("$T.sum().item()", "float($T.mean())", "$T.max().item()", "$T.flatten()[0].item()"),
    "S": ("f'{$=T.sum():.3f}'", "str($T)[:20]", "f'{$=F}'", "repr($T.sum())"),
    "K": (
        "bool(($T > 0).any())", "bool($T.sum() > 0)", "torch.equal($T, $T)", "(($T.sum() > 0) and $K)",
        "(not $T.sum())", "torch.allclose($T, $T)",
    ),
    "L": (
        "[int(t.sum().clamp(-9, 9)) for t in $LT]", "[opaque_append(G_L, i) for i in $L[:2]]",
        "sorted($L, key=lambda i: opaque_bump($=O) * -i)", "[print(i) or i for i in $L[:2]]",
    ),
    "LT": ("[opaque(t) for t in $LT]", "[t for t in $LT if t.sum() > 0]"),
}  # fmt: skip
"""Expressions that break the graph."""
