"""How a backend is found, and what its import does, in a process of its own that has imported nothing yet."""

import json
from typing import Any

import pytest

from graphwright_plugins.loading.manifest import contradictions, read_manifest
from graphwright_plugins.loading.manifest_file import MANIFEST_NAME
from graphwright_plugins.loading.registry import default_registry
from graphwright_plugins.protocol import HasAvailability, Unavailable
from graphwright_plugins.resolve import ResolvedBackend

from .base import ConformanceTests
from .fresh_process import fresh_process, process_facts
from .themes import Theme


class LoadingTests(ConformanceTests):
    """A backend is found by its name; listing imports nothing, and its import does no more than define things."""

    theme = Theme.LOADING

    def test_one_owner(self, resolved: ResolvedBackend) -> None:
        """One installed package offers the name, and its entry point gives the backend."""
        name = self._entry_point(resolved)
        found = default_registry().find(name)
        assert found.distribution, f"nobody knows which package offers {found.target!r}"
        loaded = default_registry().load(name).backend
        assert loaded is resolved.backend, f"the tests' backend is {resolved.backend!r}, and {name!r} loads {loaded!r}"

    def test_listed_without_import(self, resolved: ResolvedBackend) -> None:
        """Listing backends names this one, and doesn't import it."""
        facts = self._facts(resolved)
        assert facts["listed"], "it isn't among the listed backends"
        assert not facts["imported by listing"], "listing backends imports it: does its package import it at start?"
        assert facts["imported"], f"loading it by name doesn't import {default_registry().find(resolved.name).target}"

    def test_manifest(self, resolved: ResolvedBackend) -> None:
        """The package's data file says what the object says, and is read without importing the backend."""
        name = self._entry_point(resolved)
        manifest = read_manifest(default_registry().find(name))
        if manifest is None:
            self.not_declared(f"backend {name!r} ships no {MANIFEST_NAME}: listing backends can't tell what it can do")
        wrong = contradictions(manifest, resolved.backend)
        assert not wrong, f"{manifest.file} contradicts the backend: {'; '.join(wrong)}"
        there = self._facts(resolved)["manifest"]
        assert there == str(manifest), f"another process reads {there!r} from {manifest.file}, and this one {manifest}"

    def test_import_does_no_work(self, resolved: ResolvedBackend) -> None:
        """Importing the backend opens no device, starts no thread, draws no random number, changes no setting."""
        facts = self._facts(resolved)
        for work in ("CUDA in use", "threads started", "random numbers drawn", "settings changed"):
            assert not facts[work], f"after importing the backend: {work}"

    def test_availability(self, resolved: ResolvedBackend) -> None:
        """`available()` gives None, or a reason and a remedy, and the same each time."""
        if not isinstance(resolved.backend, HasAvailability):
            self.not_declared(f"backend {resolved.name!r} has no available(): it works wherever it is installed")
        answer: object = resolved.backend.available()
        again: object = resolved.backend.available()
        assert answer == again, f"available() gave {answer!r}, and then {again!r}"
        if answer is not None:
            assert isinstance(answer, Unavailable), f"available() gave {answer!r}"
            assert answer.reason, "why it can't work here is empty"
            assert answer.remedy, "what to do about it is empty"

    def _entry_point(self, resolved: ResolvedBackend) -> str:
        if resolved.distribution is None or resolved.name not in default_registry():
            pytest.skip(f"backend {resolved.name!r} was handed over as an object: no package is loaded")
        return resolved.name

    def _facts(self, resolved: ResolvedBackend) -> dict[str, Any]:
        name = self._entry_point(resolved)
        return process_facts(fresh_process(name, json.dumps(dict(self.options or {})), self.device))
