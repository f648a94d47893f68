"""A recorded session as a film: in a terminal with pause and seek, as asciicast, as an HTML page.

Whatever was recorded is shown as text: nothing in it acts on a terminal or in a browser.
"""

import json
import os
import select
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import NamedTuple

from quarterdeck.wire.event_text import describe_content, describe_event
from quarterdeck.wire.events import MessageChunk, TerminalOutput, ThoughtChunk, TurnStarted
from quarterdeck.wire.record import Record
from quarterdeck.wire.terminal_text import escape_controls

__all__ = ["FilmFrame", "FilmPlayer", "make_frames", "play_film", "write_asciicast", "write_html"]

LONGEST_PAUSE = 2.0
"""Seconds; longer ones, such as the wait for a person, are cut to this."""
_SEEK = 5.0
"""Seconds of the film that an arrow key jumps."""
_SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_ESCAPE = 0.05
"""Seconds in which the rest of a key's sequence comes."""
_CLEAR = "\x1b[2J\x1b[3J\x1b[H"


class FilmFrame(NamedTuple):
    """Text that appears at a time, in seconds from the beginning."""

    time: float
    text: str
    is_turn: bool = False
    """A turn begins here."""


def make_frames(
    records: Iterable[Record], *, longest_pause: float = LONGEST_PAUSE
) -> list[FilmFrame]:
    """What is seen of a session, and when; pauses are cut to ``longest_pause`` seconds."""
    frames: list[FilmFrame] = []
    now, last, is_within = 0.0, None, False
    for record in records:
        event = record.event
        if last is not None:
            now += min(max(record.time - last, 0) / 1_000_000, longest_pause)
        last = record.time
        if isinstance(event, MessageChunk | ThoughtChunk | TerminalOutput):
            is_output = isinstance(event, TerminalOutput)
            text = event.data if is_output else describe_content(event.content)
            frames.append(FilmFrame(now, _plain(text)))
            if text:
                is_within = not text.endswith("\n")
            continue
        described = describe_event(event)
        if described is None:
            continue
        start = "\n" if is_within else ""
        is_within = False
        mark = "› " if described.severity != "quiet" else "  "
        line = f"{start}{mark}{_plain(described.text)}\n"
        frames.append(FilmFrame(now, line, isinstance(event, TurnStarted)))
    return frames


def _plain(text: str) -> str:
    return escape_controls(text.replace("\r\n", "\n"), keep="\n\t")


def write_asciicast(frames: Sequence[FilmFrame], *, title: str, began: int) -> Iterator[str]:
    """The film in the format asciicast v2, line by line; ``began`` in microseconds."""
    header = {
        "version": 2,
        "width": 100,
        "height": 30,
        "timestamp": began // 1_000_000,
        "title": title,
    }
    yield json.dumps(header) + "\n"
    for frame in frames:
        text = frame.text.replace("\n", "\r\n")
        yield json.dumps([round(frame.time, 6), "o", text], ensure_ascii=False) + "\n"


def write_html(frames: Sequence[FilmFrame], *, title: str) -> str:
    """The film as one page that needs nothing from elsewhere."""
    data = json.dumps([[round(f.time, 3), f.text] for f in frames], ensure_ascii=False)
    # Within a script only these could end it, or begin a comment.
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return _PAGE.replace("@TITLE@", escape(title)).replace("@FRAMES@", data)


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>@TITLE@</title>
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>
body{margin:0;background:#14171c;color:#d8dee9;font:14px/1.45 monospace}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0;padding:1rem 1rem 5rem}
div{position:fixed;bottom:0;left:0;right:0;display:flex;
gap:.7rem;padding:.6rem 1rem;background:#1f242c}
input{flex:1}button,select{font:inherit}
</style></head><body><pre id="t"></pre>
<div><button id="p">Play</button><input id="s" type="range" min="0" step="0.1" value="0"
 aria-label="Position"><select id="v" aria-label="Speed"><option>0.5</option>
<option selected>1</option><option>2</option><option>4</option><option>8</option></select>
<span id="c"></span></div>
<script>
const F=@FRAMES@,$=i=>document.getElementById(i),end=F.length?F[F.length-1][0]:0;
let now=0,shown=0,on=false,before=0;$("s").max=end;
function draw(){if(shown&&F[shown-1][0]>now){$("t").textContent="";shown=0}
let s="";while(shown<F.length&&F[shown][0]<=now)s+=F[shown++][1];
if(s){$("t").append(s);scrollTo(0,document.body.scrollHeight)}
$("s").value=now;$("c").textContent=now.toFixed(1)+" / "+end.toFixed(1)+" s";
$("p").textContent=on?"Pause":"Play"}
function step(t){if(on){now=Math.min(end,now+(t-before)/1000*$("v").value);if(now>=end)on=false}
before=t;draw();requestAnimationFrame(step)}
$("p").onclick=()=>{if(now>=end)now=0;on=!on};
$("s").oninput=()=>{now=+$("s").value};
onkeydown=e=>{if(e.key===" "){e.preventDefault();$("p").onclick()}
if(e.key==="ArrowRight")now=Math.min(end,now+5);if(e.key==="ArrowLeft")now=Math.max(0,now-5)};
requestAnimationFrame(step);
</script></body></html>
"""


class FilmPlayer:
    """Where a film is, and what has to be written; knows neither a clock nor a terminal."""

    def __init__(self, frames: Sequence[FilmFrame], speed: float = 1.0) -> None:
        self._frames = frames
        self.speed = speed
        self.position = 0.0
        self.is_paused = False
        self.is_over = not frames
        self._shown = 0

    @property
    def length(self) -> float:
        """Seconds of the film."""
        return self._frames[-1].time if self._frames else 0.0

    def advance(self, seconds: float) -> str:
        """Let time pass; gives the text that appears."""
        if not self.is_paused:
            self.position = min(self.length, self.position + seconds * self.speed)
        return self._take()

    def wait(self) -> float | None:
        """Seconds until the next text appears; None: none does by itself."""
        if self.is_paused or self._shown >= len(self._frames):
            return None
        return max(0.0, (self._frames[self._shown].time - self.position) / self.speed)

    def press(self, key: str) -> str:
        """Take a key; gives what is to be written."""
        match key:
            case " ":
                self.is_paused = not self.is_paused
            case "right":
                return self._seek(self.position + _SEEK)
            case "left":
                return self._seek(self.position - _SEEK)
            case "up" | "+":
                self.speed = min((s for s in _SPEEDS if s > self.speed), default=self.speed)
            case "down" | "-":
                self.speed = max((s for s in _SPEEDS if s < self.speed), default=self.speed)
            case "home":
                return self._seek(0.0)
            case "end":
                return self._seek(self.length)
            case "q" | "\x03" | "\x1b":
                self.is_over = True
            case _:
                pass
        return ""

    def _seek(self, position: float) -> str:
        is_back = position < self.position
        self.position = min(max(position, 0.0), self.length)
        if not is_back:
            return self._take()
        self._shown = 0
        return _CLEAR + self._take()

    def _take(self) -> str:
        start = self._shown
        while self._shown < len(self._frames) and (
            self._frames[self._shown].time <= self.position + 1e-9
        ):
            self._shown += 1
        if self._shown == len(self._frames) and not self.is_paused:
            self.is_over = True
        return "".join(frame.text for frame in self._frames[start : self._shown])


_KEYS = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1b[H": "home",
    "\x1b[F": "end",
}


def play_film(frames: Sequence[FilmFrame], speed: float, write: Callable[[str], None]) -> None:
    """Play in this terminal until the end or ``q``; without a terminal all is written at once."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        write("".join(frame.text for frame in frames))
        return
    player = FilmPlayer(frames, speed)
    with _raw_keys() as read_key:
        last = time.monotonic()
        while not player.is_over:
            key = read_key(player.wait())
            now = time.monotonic()
            text = player.advance(now - last)
            last = now
            if key is not None:
                text += player.press(key)
            if text:
                write(text)


@contextmanager
def _raw_keys() -> Generator[Callable[[float | None], str | None]]:
    """Keys one by one, without echo; the terminal is as before afterwards."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read(seconds: float | None) -> str | None:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        if not ready:
            return None
        data = os.read(descriptor, 1)
        # The rest of an arrow key comes with its first byte; a bare escape has none.
        if data == b"\x1b" and select.select([descriptor], [], [], _ESCAPE)[0]:
            data += os.read(descriptor, 2)
        text = data.decode("utf-8", "replace")
        return _KEYS.get(text, text) if text else "q"

    try:
        tty.setcbreak(descriptor)
        yield read
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
