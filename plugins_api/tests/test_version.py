import pytest

from graphwright_plugins.version import API_VERSION, why_not_compatible


@pytest.mark.parametrize(
    ("plugin", "remedy"),
    [
        ((2, 3), None),
        ((2, 0), None),
        ((2, 4), "update graphwright-plugins"),
        ((1, 9), "update the plugin"),
        ((3, 0), "update graphwright-plugins"),
    ],
)
def test_a_plugin_fits_its_own_major_version_and_older_minor_ones(plugin: tuple[int, int], remedy: str | None) -> None:
    assert why_not_compatible(plugin, supported=(2, 3)) == remedy


def test_the_present_version_fits_itself() -> None:
    assert why_not_compatible(API_VERSION) is None
