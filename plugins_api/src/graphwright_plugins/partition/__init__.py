"""Cutting graphs between a backend and its fallback, and running the parts."""

from .decide import PartitionPlan, PlannedPart

__all__ = ["PartitionPlan", "PlannedPart"]
