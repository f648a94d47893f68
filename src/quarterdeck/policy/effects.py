"""What a rule does and how far it reaches, in words; apart from the rules, which cost a start."""

from typing import Literal, TypeAlias

__all__ = ["SCOPES", "Effect", "Scope"]

Effect: TypeAlias = Literal["allow", "ask", "deny"]
Scope: TypeAlias = Literal["call", "session", "project", "user"]
SCOPES: tuple[Scope, ...] = ("call", "session", "project", "user")
"""From the most specific to the least."""
