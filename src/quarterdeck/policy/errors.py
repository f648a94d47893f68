"""What can be wrong with what people write for the policy.

::

    PolicyError
    ├── RuleError        a rule's text cannot be read
    ├── UnknownModeError no mode has this name
    └── GrantsError      stored grants cannot be read

``decide`` itself never raises: what it cannot read, it asks about.
"""

from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["GrantsError", "PolicyError", "RuleError", "UnknownModeError"]


class PolicyError(QuarterdeckError):
    """Base of the errors of this room."""


class RuleError(PolicyError):
    """A rule's text cannot be read; ``position`` counts characters from 0."""

    def __init__(self, text: str, position: int, expected: str) -> None:
        super().__init__(f"rule {text!r}, character {position + 1}: expected {expected}")
        self.text = text
        self.position = position
        self.expected = expected


class UnknownModeError(PolicyError):
    """No mode has this name."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f"unknown permission mode {name!r}; {hint}")
        self.name = name


class GrantsError(PolicyError):
    """Stored grants cannot be read."""
