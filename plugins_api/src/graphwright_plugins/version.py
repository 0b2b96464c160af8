"""The version of the plugin contract, and which plugin versions it accepts."""

from typing import Final

API_VERSION: Final[tuple[int, int]] = (1, 0)
"""Major and minor version of the contract.

The major number changes when an existing plugin may stop working, the minor number when something is added.
"""


def why_not_compatible(plugin_version: tuple[int, int], supported: tuple[int, int] = API_VERSION) -> str | None:
    """Say why a plugin written for one version of the contract can't run with another.

    Args:
        plugin_version: The contract version that the plugin was written for.
        supported: The contract version that is installed.

    Returns:
        The reason with its remedy, or None when the two fit.
    """
    if plugin_version[0] != supported[0]:
        older = plugin_version[0] < supported[0]
        return "update the plugin" if older else "update graphwright-plugins"
    if plugin_version[1] > supported[1]:
        return "update graphwright-plugins"
    return None
