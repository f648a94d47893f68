"""Values as plain data."""

from typing import Any

import msgspec

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """The value as it would be read again from JSON: objects, lists, texts and numbers only."""
    return msgspec.json.decode(msgspec.json.encode(value))
