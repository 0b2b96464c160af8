"""What the kit tests, as fifteen themes."""

import enum


class Theme(enum.IntEnum):
    """What a conformance class is about."""

    LOADING = 1
    OPTIONS = 2
    NUMERICS = 3
    CALLING_CONVENTION = 4
    MUTATION = 5
    DYNAMIC_SHAPES = 6
    WEIGHTS = 7
    TRAINING = 8
    PARTITION = 9
    RANDOM_NUMBERS = 10
    ARTIFACTS = 11
    ERRORS = 12
    LIFETIME = 13
    PERFORMANCE_SANITY = 14
    COMPOSITION = 15

    @property
    def title(self) -> str:
        """The theme in words."""
        return self.name.replace("_", " ").capitalize()
