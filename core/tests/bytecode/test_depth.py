"""Stack depths of decoded code."""

from __future__ import annotations

from types import CodeType

from graphwright.bytecode import decode
from graphwright.bytecode.depth import stack_depths


def test_depths_fit_the_compilers_stack_size_and_handlers(library_code: list[CodeType]) -> None:
    for code in library_code:
        decoded = decode(code)
        depths = stack_depths(decoded)
        known = [depth for depth in depths if depth is not None]
        assert min(known) >= 0
        assert max(known) <= max(code.co_stacksize, 1)
        for index, depth in enumerate(depths):
            handler = decoded.handler_for(index)
            if handler is not None and depth is not None:
                assert handler.depth <= depth


def test_unreachable_instructions_have_no_depth() -> None:
    decoded = decode((lambda x: x).__code__)
    assert stack_depths(decoded)[0] == 0
    assert stack_depths(decoded)[-1] in (0, 1)
