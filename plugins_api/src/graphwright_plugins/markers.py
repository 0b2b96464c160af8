"""The decorators that mark hook specifications and implementations."""

from typing import Final

import pluggy

PROJECT_NAME: Final = "graphwright"
"""The pluggy project name that specifications and implementations share."""

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)
