"""What a review refuses, and why.

::

    FleetError
    └── ReviewError           changes cannot be read, or a text is unfit
        ├── NoSuchChangeError     the agent did not change this
        ├── NoSuchCommentError    there is no such comment
        └── ChangedMeanwhileError a file is not what was looked at
"""

from collections.abc import Iterable
from difflib import get_close_matches

from ..errors import FleetError

__all__ = ["ChangedMeanwhileError", "NoSuchChangeError", "NoSuchCommentError", "ReviewError"]


class ReviewError(FleetError):
    """Changes cannot be read or changed; the message says why."""


class NoSuchChangeError(ReviewError):
    """The agent did not change this; the message names it."""

    @classmethod
    def of_file(cls, agent: str, file: str, known: Iterable[str] = ()) -> "NoSuchChangeError":
        """For a file; ``known``: paths that the agent did change."""
        near = get_close_matches(file, list(known), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"`quarterdeck diff {agent} --stat` lists"
        hint = hint if near else f"{hint} what it changed"
        return cls(f"{agent!r} did not change {file!r}; {hint}")


class NoSuchCommentError(ReviewError):
    """There is no such comment; the message says what can be done."""


class ChangedMeanwhileError(ReviewError):
    """A file is not what was looked at; the message names it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path!r} has changed meanwhile; look at it again. Nothing was changed.")
        self.path = path
