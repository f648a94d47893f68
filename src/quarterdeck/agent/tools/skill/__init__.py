"""The tool ``skill``: loads instructions for special work."""

from .skill import SkillTool

__all__ = ["SkillTool"]
