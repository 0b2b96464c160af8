"""A backend that was written for a version of the contract that is no longer accepted."""


class OldBackend:
    """Has nothing of the present contract but the statement of its version."""

    name = "old"
    api_version = (0, 9)


old = OldBackend()
