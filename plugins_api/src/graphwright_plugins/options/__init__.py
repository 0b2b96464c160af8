"""Options of backends: checked dataclasses."""
