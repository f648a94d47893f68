"""The tool ``plan``: the steps of the work, for the person to watch."""

from .plan import PlanTool

__all__ = ["PlanTool"]
