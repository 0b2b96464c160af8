"""What kept an entry from serving a call, as data."""

from __future__ import annotations

from dataclasses import dataclass

from graphwright.exc import CodeLocation


@dataclass(frozen=True, slots=True)
class GuardFailure:
    """The first guard of an entry that did not hold for a call.

    Numbers, strings, dtypes and the like are themselves in `expected` and `actual`; other objects are told in words, so
    that a report keeps nothing of the program alive.
    """

    kind: str
    """What was compared: ``size``, ``dtype``, ``value``, ``identity``, ``type``, ``length``, ``aliasing``, ..."""
    source: str
    """Where the value came from: ``L['x'].size(0)``, ``L['cfg'].scale``, ``G['step']``."""
    text: str
    """The failure in one line."""
    expected: object = None
    """What the entry was made for."""
    actual: object = None
    """What the call brought."""
    advice: str = ""
    """What to do so that this does not cost another capture; empty where nothing need be done."""

    @property
    def condition(self) -> str:
        """What had to hold, as the text of an expression where it is one."""
        if not self.text.startswith("tensor '"):
            return self.text.partition(", actual ")[0]
        place = self.source if self.source.endswith(")") else f"{self.source}.{self.kind.replace(' ', '_')}"
        return f"{place} == {self.expected}"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Recompile:
    """One call that no entry fitted."""

    function: str
    """The function, by its qualified name; one that resumes after a graph break says where."""
    location: CodeLocation
    """Where the function starts."""
    backend: str
    """The backend that the function was compiled for."""
    failures: tuple[GuardFailure, ...]
    """Why each entry did not fit, the one used last first."""
    captured: bool = True
    """Whether it was captured once more; False where a limit forbade it and the call ran in eager."""

    @property
    def advice(self) -> str:
        """What to do about it: what helps the entry used last, which is nearest to the call."""
        return self.failures[0].advice if self.failures else ""

    def __str__(self) -> str:
        what = "captured once more" if self.captured else "ran in eager: a limit is reached"
        lines = [f"{self.function} ({self.location}), backend {self.backend}: {what}"]
        lines += [f"  - {failure}" for failure in self.failures]
        return "\n".join([*lines, *([f"  What to do: {self.advice}"] if self.advice else [])])
