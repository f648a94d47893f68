"""What can be wrong with the configuration and its files.

::

    ConfigError
    ├── InvalidConfigError a layer has keys or values that no setting takes
    ├── UnreadableConfigError a file cannot be read, or is not TOML
    ├── UnusablePlaceError a directory of ours cannot be found or made
    └── UnusableTrustError the list of trusted directories cannot be read or written
"""

from typing import NamedTuple

from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "ConfigError",
    "ConfigProblem",
    "InvalidConfigError",
    "UnreadableConfigError",
    "UnusablePlaceError",
    "UnusableTrustError",
]


class ConfigProblem(NamedTuple):
    """One thing that is wrong with a layer."""

    where: str
    """The file, or ``environment``, or ``flags``."""
    key: str
    """The setting with its dots, or the variable's name."""
    message: str
    """What is wrong and what would be right."""

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.where}: {self.key}: {self.message}"


class ConfigError(QuarterdeckError):
    """The configuration cannot be used."""


class InvalidConfigError(ConfigError):
    """A layer has keys or values that no setting takes; one message names all its problems."""

    def __init__(self, problems: tuple[ConfigProblem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class UnreadableConfigError(ConfigError):
    """A configuration file cannot be read, or is not TOML."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class UnusablePlaceError(ConfigError):
    """A directory of ours cannot be found or made."""


class UnusableTrustError(ConfigError):
    """The list of trusted directories cannot be read or written."""
