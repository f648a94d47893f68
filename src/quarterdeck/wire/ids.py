"""Identifiers: short, unique, and sortable by the time they were made.

An id is a prefix that says what it names, then 26 characters of Crockford base 32: 48 bits of
milliseconds and 80 random bits. Ids given by foreign agents (tool calls, messages) are kept as
they came; nothing may depend on an id's inner form.
"""

import os
from typing import NewType

from quarterdeck.wire.clock import read_wall_clock

__all__ = [
    "CompactionId",
    "MessageId",
    "RequestId",
    "SessionId",
    "TerminalId",
    "ToolCallId",
    "TurnId",
    "new_budget_id",
    "new_compaction_id",
    "new_grant_id",
    "new_message_id",
    "new_request_id",
    "new_session_id",
    "new_tool_call_id",
    "new_turn_id",
]

SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
MessageId = NewType("MessageId", str)
ToolCallId = NewType("ToolCallId", str)
RequestId = NewType("RequestId", str)
"""Names a permission request or a question."""
TerminalId = NewType("TerminalId", str)
CompactionId = NewType("CompactionId", str)

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_BITS = 48
_RANDOM_BYTES = 10


def _new(prefix: str) -> str:
    millis = read_wall_clock() // 1_000 & ((1 << _TIME_BITS) - 1)
    number = millis << (8 * _RANDOM_BYTES) | int.from_bytes(os.urandom(_RANDOM_BYTES))
    digits = "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))
    return f"{prefix}_{digits}"


def new_session_id() -> SessionId:
    """Make an id for a session."""
    return SessionId(_new("ses"))


def new_turn_id() -> TurnId:
    """Make an id for a turn."""
    return TurnId(_new("trn"))


def new_message_id() -> MessageId:
    """Make an id for a message."""
    return MessageId(_new("msg"))


def new_tool_call_id() -> ToolCallId:
    """Make an id for a tool call whose agent gave none."""
    return ToolCallId(_new("call"))


def new_request_id() -> RequestId:
    """Make an id for a permission request or a question."""
    return RequestId(_new("req"))


def new_grant_id() -> str:
    """Make an id for a standing answer that no request led to."""
    return _new("grt")


def new_compaction_id() -> CompactionId:
    """Make an id for a compaction."""
    return CompactionId(_new("cmp"))


def new_budget_id() -> str:
    """Make an id for a reservation of a budget."""
    return _new("bud")
