"""A session as one JSON object; its texts are whole, and ASCII throughout."""

import json

import msgspec

from quarterdeck.wire.ids import SessionId

from .passages import Passage

__all__ = ["VERSION", "JsonWriter"]

VERSION = 1


class JsonWriter:
    """Writes ``{"version": 1, "session": …, "passages": [{…}, …]}``, a passage a line."""

    def __init__(self) -> None:
        self._is_first = True

    def begin(self, session: SessionId) -> str:
        """The fields before the passages."""
        return f'{{"version":{VERSION},"session":{json.dumps(session)},"passages":['

    def write(self, passage: Passage) -> str:
        """One object."""
        lead = "\n" if self._is_first else ",\n"
        self._is_first = False
        # The escapes of JSON keep marks of direction and the like from acting where it is shown.
        return lead + json.dumps(msgspec.to_builtins(passage), separators=(",", ":"))

    def end(self) -> str:
        """The brackets that are open."""
        return "\n]}\n"
