"""The words for failure.

::

    QuarterdeckError
    ├── LinkError            a link to a peer cannot be used, in four words:
    │   ├── LinkClosedError      we closed it
    │   ├── LinkEndedError       the peer finished in good order
    │   ├── LinkBrokenError      the peer or the operating system failed
    │   └── LinkBusyError        two users where there can be one
    ├── RpcError             the peer answered a request with an error
    ├── MalformedRecordError bytes that are no record of the log
    └── NewerVersionError    a record of a version that this program does not know

Every room adds its own errors below ``QuarterdeckError``; the command line shows their text and
no traceback. A message names the thing and says what to do.
"""

from typing import Any, cast

__all__ = [
    "LinkBrokenError",
    "LinkBusyError",
    "LinkClosedError",
    "LinkEndedError",
    "LinkError",
    "MalformedRecordError",
    "NewerVersionError",
    "QuarterdeckError",
    "RpcError",
]


_LONGEST_DETAILS = 2000


class QuarterdeckError(Exception):
    """Base of every error that we raise on purpose."""


class LinkError(QuarterdeckError):
    """A link to a peer cannot be used."""


class LinkClosedError(LinkError):
    """We closed the link ourselves."""


class LinkEndedError(LinkError):
    """The peer finished: its stream ended in good order."""


class LinkBrokenError(LinkError):
    """The peer or the operating system failed.

    ``exit_code`` or ``signal`` are set when a process of ours was behind the link and is gone;
    ``stderr`` holds the last lines it wrote.
    """

    def __init__(
        self,
        reason: str,
        *,
        exit_code: int | None = None,
        signal: str | None = None,
        stderr: str = "",
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code
        self.signal = signal
        self.stderr = stderr


class LinkBusyError(LinkError):
    """Two users where there can be one, or a wait that would never end."""


class RpcError(QuarterdeckError):
    """The peer answered a request with an error; raised by a handler, it becomes the answer."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"{self.description} ({code})")

    @property
    def description(self) -> str:
        """The message, and what ``data`` says beyond it, for a person."""
        details = _details_of(self.data)
        if details is None or details in self.message:
            return self.message
        is_whole = details.startswith(self.message)
        return details if is_whole else f"{self.message}: {details}"


def _details_of(data: Any) -> str | None:
    """The text in an error's ``data``, wherever agents put it; at most 2,000 characters."""
    if isinstance(data, dict):
        fields = cast("dict[str, Any]", data)
        found = (_details_of(fields.get(name)) for name in ("details", "message", "error"))
        return next((text for text in found if text is not None), None)
    if isinstance(data, str) and data.strip():
        return data.strip()[:_LONGEST_DETAILS]
    return None


class MalformedRecordError(QuarterdeckError):
    """Bytes that are no record of the log."""


class NewerVersionError(QuarterdeckError):
    """Data of a version that this program does not know."""

    def __init__(self, what: str, found: int, known: int) -> None:
        super().__init__(
            f"{what} has version {found}; this program knows versions up to {known}. "
            f"Upgrade quarterdeck to read it."
        )
        self.found = found
        self.known = known
