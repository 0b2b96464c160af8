"""Templates of statements.

As in expressions, and: `$+T` is a variable to bind, new or not; `$@T` a variable that may be bound again; `$~I` a new
variable for the block that follows; `$_` on a line of its own is an indented block; `$r` a return value.
"""

from __future__ import annotations

PLAIN: tuple[str, ...] = (
    "$+T = $T", "$+T = $T", "$+T = $T", "$+T = $T", "$+I = $I", "$+F = $F", "$+S = $S", "$+K = $K", "$+L = $L",
    "$+LT = $LT", "$+DT = $DT", "$+DI = $DI", "$+P = $P", "$+SE = $SE", "$+O = $O", "$+FN = $FN",
    # tensors in place
    "$@T += $1 * $F", "$@T += $=T", "$@T *= $F", "$@T -= $I", "$=T.add_($=T)", "$=T.mul_($F)", "$=T[:1] = $F",
    "$=T[-1:] += $F",
    "$=T.copy_($1 * $F)", "$=T.zero_()", "$=T[$I:].add_($F)", "$=T.view(-1)[:1] = $F", "$=T.tag = $S",
    "torch.relu_($=T)",
    "torch.sin($=T, out=$1)", "$=T.requires_grad_()", "$=T.grad = None", "$=T[..., $I:] = $F",
    # numbers, strings
    "$@I += $I % 5", "$@I -= 1", "$@F *= 0.5", "$@S += 'x'", "$@I = $@I = $I",
    # lists
    "$=L.append($I)", "$=L.append($I)", "$=L.insert(0, $I)", "if $=L:\n    $1.pop()", "$=L.extend($L[:2])",
    "$=L[0:1] = [$I]",
    "if $=L:\n    $1[$I % 1] = $I", "if $=L:\n    del $1[0]", "$=L.sort()", "$=L.reverse()", "$=L.clear()",
    "$@L += [$I]", "$=L[1:2] = [$I, $I]",
    "if $=I in $=L:\n    $2.remove($1)", "$=LT.append($T)", "if $=LT:\n    $1[0] = $T", "if $=LT:\n    $1[0] += $F",
    "if $=LT:\n    $1.pop()", "for $~T in $=LT:\n    $1.mul_($F)",
    "$=LT.extend([$T])", "G_L.append($I)", "log.append($I)", "log.append($T)", "$=L[:] = $L", "del $=L[1:]",
    "$=L.sort(key=lambda i: -i)", "$=L.sort(reverse=$K)", "$=L *= 1", "$=LT.reverse()",
    # dicts, sets
    "$=DT['a'] = $T", "$=DT[$S] = $T", "if $S in $=DT:\n    del $=DT[$1]", "$=DT.pop($S, None)", "$=DT.update(b=$T)",
    "$=DT.setdefault('c', $T)", "$=DT['a'] = $1.get('a', 1) * $T", "$=DT.get('a', $T).add_($F)", "$=DI['n'] = $I",
    "$=DI['a'] = $1.get('a', 0) + 1",
    "$=DI.update($DI)", "$=DI.clear()", "if $=DI:\n    $1.popitem()", "$=DI.pop('a', $I)", "G_D[$S] = $I",
    "$@DT |= $DT",
    "$=SE.add($I)", "$=SE.discard($I)", "$=SE.update($L)", "try:\n    $=SE.remove($I)\nexcept KeyError:\n$_",
    "$@SE |= $SE", "if $=SE:\n    $1.pop()",
    # objects
    "$=O.x = $T", "$=O.n += 1", "$=O.n = $I", "$=O.items.append($I)", "$=O.extra = $I",
    "if hasattr($=O, 'extra'):\n    del $1.extra",
    "setattr($=O, 'n', $I)", "$=O.bump()", "$=O.double = $I", "$=O.child = $O", "$=O[0:1] = [$I]", "$=O.x += $F",
    "$=O.x.mul_($F)", "Box.total += 1", "Box.count()", "$=O.items = $L", "$=O.fn = $FN", "$=O.__dict__['n'] = $I",
    "$=O.absorb($T)", "$=O.gone = 1\ndel $1.gone",
    # globals, closure
    "G_N += 1", "count += 1", "G_N = $I", "G_T.add_($F)", "G_T = $T", "count = $I", "G_O.n += $I", "G_O.x = $T",
    # unpacking, aliases
    "$+T, $+I = $P", "$+I, *$+L = [$I, *$L]", "$+T, $+T = $T, $T", "$+L = $+L = $L", "[$+T, *$+LT] = [$T, *$LT]",
    "$+O = $=O",
    "($+I, ($+I, $+I)) = ($I, ($I, $I))", "$+T, $+T = [*$LT, $T, $T][:2]", "$+L = $=L", "$+DT = $=DT", "$+T = $=T",
    # deletion
    "$+I = 0\ndel $1",
    # control flow
    "if $K:\n$_", "if $K:\n$_\nelse:\n$_", "if $I > $I:\n$_\nelif $K:\n$_\nelse:\n$_",
    "for $~I in range($I % 4):\n$_", "for $~I in $L[:3]:\n$_", "for $~T in $LT[:3]:\n$_",
    "for $~I in $=L:\n    if len($2) > 6:\n        break\n$_", "for $~S, $~T in $DT.items():\n$_",
    "for $~I, $~T in enumerate($LT[:3]):\n$_", "for $~T in $T[:2]:\n$_", "for $~I in count_to($I % 3):\n$_",
    "for $~I, $~I in zip($L, $L[:3]):\n$_", "for $~S in list($DI):\n$_", "for $~I in sorted($SE)[:3]:\n$_",
    "for $~I in range(3):\n$_\n    if $K:\n        break\nelse:\n$_",
    "for $~I in range(3):\n    if $K:\n        continue\n$_",
    "$~W = 0\nwhile $1 < $I % 4:\n    $1 += 1\n$_", "while True:\n$_\n    break",
    "for $~T, $~I in [$P, $P]:\n$_",
    "$~W = 3\nwhile $1:\n    $1 -= 1\n    if $K:\n        break\n$_\nelse:\n$_",
    # exceptions
    "try:\n$_\nexcept $X:\n$_", "try:\n$_\nexcept Exception as $~E:\n    log.append(str($=E))\n$_",
    "try:\n$_\nfinally:\n$_", "try:\n$_\nexcept ($X, $X):\n$_\nelse:\n$_\nfinally:\n$_",
    "try:\n$_\n    raise $X($S)\nexcept $X as $~E:\n    log.append(type($=E).__name__)\n$_",
    "try:\n$_\nexcept $X as $~E:\n    if $K:\n        raise $X($S) from $=E",
    "try:\n$_\nexcept $X:\n    if $K:\n        raise",
    "try:\n    $+I = $DI[$S]\nexcept KeyError as $~E:\n    log.append($=E.args)",
    "if $K and $I > 3:\n    raise $X($S)", "if $I > 4:\n    raise $X($S)",
    "try:\n    $+I = $L[9]\nexcept (IndexError, KeyError):\n$_",
    "try:\n    $+I = 1 // $I\nexcept ZeroDivisionError:\n$_",
    "try:\n    raise Sorry($S, $I)\nexcept Sorry as $~E:\n    log.append($=E.code)", "assert $K or $I >= 0, $S",
    "assert $I > -2",
    "try:\n    $=T[9]\nexcept IndexError:\n$_",
    "try:\n    $=O.nope\nexcept AttributeError as $~E:\n    log.append(str($=E))",
    "if $K:\n    return $R", "try:\n$_\n    return $R\nfinally:\n$_",
    "for $~I in $L[:3]:\n$_\n    if $K:\n        return $R",
    "for $~I in range(2):\n    try:\n$__\n        continue\n    finally:\n$__",
    # with
    "with torch.no_grad():\n$_", "with torch.enable_grad():\n$_", "with torch.set_grad_enabled($K):\n$_",
    "with Scope(log):\n$_", "with Scope(log, True):\n$_", "with Scope($=L) as $~N:\n$_",
    "with contextlib.suppress($X, ValueError):\n$_", "with contextlib.nullcontext($T) as $~T:\n$_",
    "with noting(log):\n$_", "with noting(log) as $~I:\n$_", "with torch.no_grad(), Scope(log):\n$_",
    "with contextlib.ExitStack() as $~N:\n    $=N.enter_context(Scope(log))\n$_",
    "with torch.autocast('cpu', dtype=torch.bfloat16):\n$_",
    # match
    "match $I:\n    case 0:\n$__\n    case 1 | 2:\n$__\n    case $~I if $K:\n$__\n    case _:\n$__",
    "match $P:\n    case ($~T, 1):\n$__\n    case ($~T, $~I):\n$__",
    "match $S:\n    case 'a':\n$__\n    case str():\n$__",
    "match $DI:\n    case {'a': $~I}:\n$__", "match $O:\n    case Box(n=1):\n$__\n    case Box(n=$~I):\n$__",
)  # fmt: skip
"""Statements that can be captured, simplest first."""

BREAKING: tuple[str, ...] = (
    "print($S, $I)", "print($T.sum().item())", "print($T)", "print($S, end='')", "opaque_append($=L, $I)",
    "opaque_append($=LT, $T)", "opaque_bump($=O)", "warnings.warn($S)", "graphwright.graph_break()",
    "log.append($T.sum().item())", "if $T.sum() > 0:\n$_", "if $T.mean() > $F:\n$_\nelse:\n$_",
    "for $~I in range(3):\n    print($I)\n$_", "for $~T in $LT[:3]:\n    if $T.sum() > 0:\n        continue\n$_",
    "$~W = 0\nwhile $T.sum() > 0 and $1 < 3:\n    $1 += 1\n$_", "assert $T.sum() != 0, $S",
    "try:\n    opaque_raise($X, $S)\nexcept $X as $~E:\n    log.append(str($=E))\n$_",
    "if $I > 3:\n    opaque_raise($X, $S)",
    "try:\n$_\n    print($S)\nfinally:\n    print('finally')\n$_", "with Scope(log):\n    print($S)\n$_",
    "with torch.no_grad():\n    $+T = opaque($T)\n$_", "with noting(log):\n    print($I)\n$_",
    "for $~I in range(2):\n    with Scope(log, True):\n        opaque_raise($X, $S)\n$_",
    "$+I, $+F = $I, $T.sum().item()",
    "$+DT = {'a': opaque($T), 'b': $T}", "$+LT = [$T, opaque($T), $T]", "print(*$L, sep='|')",
    "for $~I in $L[:2]:\n    $@T = opaque($T, $I)", "try:\n    $=T.sum().item().nope\nexcept AttributeError:\n$_",
    "with contextlib.suppress($X):\n    print($S)\n    raise $X($S)",
    "try:\n    print($I)\n    raise $X($S)\nexcept $X:\n$_",
    "match $T.argmax().item():\n    case 0:\n$__\n    case $~I:\n$__", "print(f'{$=I} {$=F:.3f}')", "exec('pass')",
    "$=T[$T > 0] += $F", "with Scope(log):\n    print($S)\n    return $R", "try:\n    return opaque($T)\nfinally:\n$_",
    "with Scope(log), torch.no_grad():\n    print(torch.is_grad_enabled())\n$_",
)  # fmt: skip
"""Statements that break the graph."""
