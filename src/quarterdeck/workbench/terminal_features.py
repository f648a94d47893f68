"""What the person's terminal can show: signs, the number of colours, a light or a dark background.

The environment says most of it. The background is asked for (OSC 11) when the driver starts, and
the answer is taken out of the input before keys are read from it; nothing waits for it. A terminal
that does not answer counts as dark.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from textual._xterm_parser import XTermParser
from textual.filter import LineFilter

from quarterdeck.wire.clock import MonotonicClock

from .rendering.glyphs import SignLevel, to_ascii

if TYPE_CHECKING:
    from rich.segment import Segment
    from textual.color import Color

__all__ = [
    "BACKGROUND_QUERY",
    "BackgroundReply",
    "SignFilter",
    "choose_sign_level",
    "has_few_colours",
    "is_light_by_environment",
    "listen_for_background",
    "read_background",
]

BACKGROUND_QUERY = "\x1b]11;?\x1b\\"
_PREFIX = "\x1b]11;"
_REPLY = re.compile(r"\x1b\]11;([^\x07\x1b]{0,60})(?:\x07|\x1b\\)")
_LONGEST_REPLY = 80
_PATIENCE = 2.0
_PLAIN_TERMINALS = frozenset({"linux", "dumb"})
"""Their fonts have letters, but few of our signs."""
_FULL_COLOURS = frozenset({"truecolor", "24bit"})
_MANY_COLOURS = ("256color", "kitty", "direct", "truecolor")


def choose_sign_level(setting: str, environ: Mapping[str, str]) -> SignLevel:
    """Which signs to draw; ``setting`` is ``auto``, ``unicode`` or ``ascii``.

    A locale that is named and is not UTF-8 means ASCII; where none is named, nothing is known, and
    terminals of today show everything.
    """
    if setting == "unicode":
        return "unicode"
    if not _is_utf8(environ):
        return "ascii"
    if setting == "ascii" or environ.get("TERM") in _PLAIN_TERMINALS:
        return "signs"
    return "unicode"


def _is_utf8(environ: Mapping[str, str]) -> bool:
    names = (environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next((name for name in names if name), "")
    return not locale or "utf8" in locale.lower().replace("-", "")


def has_few_colours(environ: Mapping[str, str]) -> bool:
    """Whether the terminal has 16 colours or fewer, as Rich will find too."""
    forced = environ.get("TEXTUAL_COLOR_SYSTEM", "auto")
    if forced != "auto":
        return forced == "standard"
    term = environ.get("TERM", "")
    if not term or environ.get("COLORTERM", "").strip().lower() in _FULL_COLOURS:
        return False
    return not term.endswith(_MANY_COLOURS)


def is_light_by_environment(environ: Mapping[str, str]) -> bool | None:
    """What ``COLORFGBG`` says, as ``0;15`` for black on white; None: nothing."""
    colour = environ.get("COLORFGBG", "").rpartition(";")[2]
    if not colour.isdecimal():
        return None
    return int(colour) in (7, 15)


def read_background(reply: str) -> bool | None:
    """Whether a colour such as ``rgb:ffff/ffff/ffff`` is light; None: it is no colour."""
    found = re.fullmatch(r"rgba?:([0-9a-fA-F/]+)", reply)
    parts = found[1].split("/")[:3] if found is not None else []
    if len(parts) != 3 or not all(0 < len(part) <= 4 for part in parts):
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in parts)
    return 0.299 * red + 0.587 * green + 0.114 * blue > 0.5


class BackgroundReply:
    """Takes the answer to ``BACKGROUND_QUERY`` out of what comes from the terminal.

    It may come in pieces, and keys may come around it; those pass at once. Only while the answer is
    awaited, an escape at the end of what was read waits for the next read or the next ``release``,
    as the answer begins with one.

    Args:
        on_reply: called with whether the background is light.
        clock: seconds; an answer is awaited for two of them.
    """

    def __init__(
        self, on_reply: Callable[[bool], None], clock: MonotonicClock = time.monotonic
    ) -> None:
        self._on_reply = on_reply
        self._clock = clock
        self._until = clock() + _PATIENCE
        self._held = ""
        self._is_fresh = False
        """What is held came with the last read."""

    def take(self, data: str) -> str:
        """What is left of it for keys."""
        data, self._held = self._held + data, ""
        data = _REPLY.sub(self._answered, data)
        begin = data.rfind(_PREFIX)
        if begin < 0 and self._clock() < self._until:
            begin = next((len(data) - n for n in (4, 3, 2, 1) if data.endswith(_PREFIX[:n])), -1)
        if begin >= 0 and len(data) - begin < _LONGEST_REPLY:
            data, self._held, self._is_fresh = data[:begin], data[begin:], True
        return data

    def release(self) -> str:
        """What was held and is no answer, as nothing more came; a part of an answer stays."""
        if self._is_fresh or self._held.startswith(_PREFIX):
            self._is_fresh = False
            return ""
        data, self._held = self._held, ""
        return data

    def _answered(self, found: re.Match[str]) -> str:
        is_light = read_background(found[1])
        if is_light is not None:
            self._until = 0.0
            self._on_reply(is_light)
        return ""


def listen_for_background(on_reply: Callable[[bool], None]) -> None:
    """Let Textual's driver for terminals of Unix take the answer; call it before it starts.

    ``on_reply`` is called in the thread that reads the input.
    """
    from textual.drivers import linux_driver

    reply = BackgroundReply(on_reply)

    class ReplyParser(XTermParser):
        """Textual's own, without the answer."""

        def feed(self, data: str) -> Iterable[Any]:
            """See ``Parser``; no data means the end."""
            rest = reply.take(data) if data else ""
            return super().feed(rest) if rest or not data else ()

        def tick(self) -> Iterable[Any]:
            """See ``Parser``."""
            if held := reply.release():
                yield from super().feed(held)
            yield from super().tick()

    cast("Any", linux_driver).XTermParser = ReplyParser


class SignFilter(LineFilter):
    """Draws signs in ASCII: the last thing that happens to a line, of a widget or of its border."""

    def __init__(self, level: SignLevel) -> None:
        super().__init__()
        self._keeps_letters = level == "signs"

    def apply(self, segments: "list[Segment]", background: "Color") -> "list[Segment]":
        """See ``LineFilter``."""
        return [
            segment
            if segment.text.isascii()
            else type(segment)(
                to_ascii(segment.text, keeps_letters=self._keeps_letters),
                segment.style,
                segment.control,
            )
            for segment in segments
        ]
