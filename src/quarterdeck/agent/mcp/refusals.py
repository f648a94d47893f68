"""What an HTTP status says of a server, and what a person can do about it."""

from contextlib import suppress

import msgspec

from quarterdeck.models.http import Answer
from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["Status", "old_transport", "refusal_of"]

_SHOWN = 200
_ADVICE = {
    401: (
        "it wants to know who asks. Give it a token, such as headers.Authorization = "
        '"Bearer ${NAME}"; logging in by OAuth is not supported'
    ),
    403: "it does not let us in; check the token in its headers",
}
"""For those that no later request mends."""


class Status(QuarterdeckError):
    """An answer that is no answer to the message."""

    def __init__(self, code: int, text: str, *, is_final: bool) -> None:
        super().__init__(text)
        self.code = code
        self.is_final = is_final
        """Whether every other message would fare the same."""


def old_transport(url: str) -> str:
    """What to say of a server of the transport that there was at first."""
    return (
        f"{url!r} speaks the old transport of HTTP and events, which is not supported; look for "
        "the server's address for streamable HTTP, which often ends in /mcp"
    )


def refusal_of(answer: Answer, body: bytes) -> Status:
    """Put a refusal into words."""
    code = answer.status
    if advice := _ADVICE.get(code):
        return Status(code, f"HTTP {code}: {advice}", is_final=True)
    if 300 <= code < 400:
        there = answer.headers.get("location", "elsewhere")
        text = f"HTTP {code}: it has moved to {there!r}; put its new address into the settings"
        return Status(code, text, is_final=True)
    return Status(code, f"HTTP {code}: {_words(body)}", is_final=False)


def _words(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    with suppress(msgspec.DecodeError, KeyError, TypeError, RecursionError):
        text = str(msgspec.json.decode(body)["error"]["message"])
    return " ".join(text.split())[:_SHOWN] or "no reason was given"
