"""An agent that can only be used in a terminal, for tests: its prompts are commands.

``python -m quarterdeck.testing.tui`` draws a prompt between two lines at the end of the screen and
what it says above, as agents do that keep to the main screen.
"""

import argparse
import os
import random
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from .disk_actions import DiskAction, parse_action
from .oneshot_cli.program import COMMANDS, FakeOneshotFailedError, run_line
from .session_memory import SessionMemory

__all__ = [
    "FakeKeyPress",
    "FakeTui",
    "FakeTuiDisplay",
    "FakeTuiKeyboard",
    "TurnInterruptedError",
    "main",
]


class FakeTuiDisplay:
    """A terminal in raw mode; ``chrome`` is what is drawn below all messages."""

    def __init__(self) -> None:
        self._before: list[Any] = termios.tcgetattr(0)
        self._drawn = 0
        self._chrome: tuple[str, ...] = ()

    def __enter__(self) -> "FakeTuiDisplay":
        tty.setraw(0)
        self._write("\x1b[?2004h\x1b[?25l")
        return self

    def __exit__(self, *_: object) -> None:
        self._write("\x1b[?2004l\x1b[?25h\r\n")
        termios.tcsetattr(0, termios.TCSANOW, self._before)

    @property
    def columns(self) -> int:
        """How wide it is."""
        return max(os.get_terminal_size(1).columns, 20)

    def say(self, lines: Sequence[str]) -> None:
        """Print lines above the chrome; long ones are wrapped by the terminal."""
        self._write(self._erased() + "".join(f"{line}\r\n" for line in lines) + self._below())

    def show(self, chrome: Sequence[str]) -> None:
        """Draw this below everything from now on; lines that are too long are cut."""
        width = self.columns - 1
        erased = self._erased()
        self._chrome = tuple(line[:width] for line in chrome)
        self._write(erased + self._below())

    def raw(self, data: bytes) -> None:
        """Write bytes as they are; may be interrupted by a signal that draws."""
        while data:
            data = data[os.write(1, data) :]

    def anew(self) -> None:
        """Draw on an empty terminal, as after its size has changed or what is on it is unknown."""
        self._drawn = 0
        self.raw(b"\x1b[?2004h\x1b[2J\x1b[H")
        self._write(self._below())

    def lost(self) -> None:
        """Something else has written to the terminal: draw below it."""
        self._drawn = 0
        self._write("\r\n" + self._below())

    def _erased(self) -> str:
        up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
        return f"\r{up}\x1b[J" if self._drawn else ""

    def _below(self) -> str:
        self._drawn = len(self._chrome)
        return "\r\n".join(self._chrome)

    def _write(self, text: str) -> None:
        # In one piece, so that no half of it is ever visible.
        text = f"\x1b[?2026h{text}\x1b[?2026l"
        self.raw(text.encode("utf-8", "surrogateescape"))


_BEGIN, _END = b"\x1b[200~", b"\x1b[201~"


@dataclass(frozen=True, slots=True)
class FakeKeyPress:
    """One key, or a whole paste."""

    key: str
    """Its name, a character, or ``paste``."""
    text: str = ""


class FakeTuiKeyboard:
    """Reads standard input."""

    def __init__(self) -> None:
        self._waiting: bytes = b""

    def read(self, seconds: float | None = None) -> FakeKeyPress | None:
        """The next key, within so many seconds; None if there was none. EOFError at the end."""
        while True:
            pressed = self._next(is_late=False)
            if pressed is not None:
                return pressed
            # A lone escape may be the beginning of more.
            limit = 0.05 if self._waiting.startswith(b"\x1b") and not self._in_paste else seconds
            ready, _, _ = select.select([0], [], [], limit)
            if not ready:
                return self._next(is_late=True)
            data = os.read(0, 1 << 16)
            if not data:
                raise EOFError
            self._waiting += data

    @property
    def _in_paste(self) -> bool:
        return self._waiting.startswith(_BEGIN)

    def _next(self, *, is_late: bool) -> FakeKeyPress | None:
        data = self._waiting
        if not data:
            return None
        if data.startswith(_BEGIN):
            text, end, rest = data[len(_BEGIN) :].partition(_END)
            if not end:
                return None
            self._waiting = rest
            return FakeKeyPress("paste", text.decode("utf-8", "replace").replace("\r", "\n"))
        if data[:1] == b"\x1b":
            if len(data) == 1 and not is_late:
                return None
            if _BEGIN.startswith(data) and not is_late:
                return None
            self._waiting = data[3:] if data[1:2] == b"[" else data[1:]
            return FakeKeyPress("escape" if data[1:2] != b"[" else data[1:3].decode())
        self._waiting = data[1:]
        return FakeKeyPress({13: "enter", 3: "ctrl+c", 127: "backspace"}.get(data[0], chr(data[0])))


class TurnInterruptedError(Exception):
    """Escape was pressed during a turn."""


class FakeTui:
    """The program, and the output of the commands that all fakes share."""

    streams = True
    may_run = False

    def __init__(
        self, drawing: FakeTuiDisplay, keyboard: FakeTuiKeyboard, memory: SessionMemory
    ) -> None:
        self.memory = memory
        self._drawing = drawing
        self._keyboard = keyboard
        self._is_saying = False
        self._says = 0
        self.hesitation = 0.0
        """Seconds in which it shows a prompt and nothing of what it does with it."""

    # Drawing

    def ready(self, typed: str = "") -> None:
        """Draw the prompt."""
        shown = typed.split("\n", 1)[0][:60]
        more = f" [+{len(typed) - len(shown)} characters]" if len(typed) > len(shown) else ""
        self._box(f"{shown}{more}", "  ready · fake")

    def _box(self, typed: str, status: str) -> None:
        line = "─" * (self._drawing.columns - 1)
        self._drawing.show((line, f"> {typed}", line, status))

    # Saying

    def say(self, text: str) -> None:
        """Say something; lines that follow each other are one message."""
        for line in text.removesuffix("\n").split("\n"):
            self._drawing.say((f"{'  ' if self._is_saying else '● '}{line}",))
            self._is_saying = True
        self._says += 1
        if self._says % 20 == 0:
            # As fast as models are, at first: what comes all at once is no stream.
            self._listen(0.03 if self._says < 600 else 0.001)

    def think(self, text: str) -> None:
        """Think something."""
        self._line(f"∴ {text}")

    def tool(self, title: str) -> None:
        """A tool call from beginning to end."""
        self._line(f"⚙ {title}")
        self._listen(0.02)
        self._line(f"✓ {title}", instead=True)

    def plan(self, steps: list[str]) -> None:
        """It draws none."""

    def unknown(self, rest: str) -> None:
        """Something that no reader knows."""
        self._line(f"◇ {rest}")

    def _line(self, line: str, *, instead: bool = False) -> None:
        self._is_saying = False
        if not instead:
            self._drawing.say((line,))

    # Doing

    def turn(self, prompt: str) -> None:
        """Do what a prompt says."""
        self.memory.keep(prompt)
        self._is_saying = False
        first = prompt.split("\n", 1)[0][:60]
        self._drawing.say((f"> {first}",))
        if self.hesitation:
            self.ready()
            time.sleep(self.hesitation)
        self._box("", "  working · esc to interrupt")
        try:
            for line in prompt.split("\n"):
                self._run(line)
        except FakeOneshotFailedError as error:
            self._line(f"■ {error}")
        except TurnInterruptedError:
            self._line("□ interrupted")

    def _run(self, line: str) -> None:
        name, _, rest = line.strip().partition(" ")
        own = {
            "wait": self._wait,
            "ask": self._ask,
            "ask-edit": self._ask_edit,
            "do": self._do,
            "garbage": self._garbage,
            "noise": self._noise,
            "dialog": self.dialog,
            "stderr": self._stderr,
            "children": self._children,
        }
        if name in own:
            own[name](rest)
        else:
            run_line(self, line)  # type: ignore[arg-type]

    def _wait(self, rest: str) -> None:
        self.say("waiting")
        end = time.monotonic() + float(rest or 3600)
        while time.monotonic() < end:
            self._listen(0.2)

    def _ask(self, title: str) -> None:
        title = title or "run a command"
        self._request(title, "Run this command?", f"$ {title}")

    def _ask_edit(self, path: str) -> None:
        self._request(path, "Edit this file?", path)

    def _request(self, title: str, question: str, about: str) -> None:
        """Ask for permission, and say what the answer was."""
        self._line(f"⚙ {title}")
        chosen = self._is_permitted(question, about)
        self._is_saying = False
        self.say("allowed" if chosen else "denied")

    def _is_permitted(self, question: str, about: str) -> bool:
        """Ask for permission."""
        line = "─" * (self._drawing.columns - 1)
        options = (" ❯ 1. Yes", "   2. Yes, always", "   3. No")
        end = " enter to confirm · esc to cancel"
        self._drawing.show((line, f" {question}", f"   {about}", *options, "", end))
        chosen = self._choose({"1": True, "2": True, "3": False, "enter": True})
        self._box("", "  working · esc to interrupt")
        return chosen

    def _do(self, rest: str) -> None:
        """Do something with permission; read without it."""
        action = parse_action(rest)
        self._line(f"⚙ {action.title}")
        match action.kind:
            case "edit":
                may = self._is_permitted("Edit this file?", action.target)
            case "run":
                may = self._is_permitted("Run this command?", f"$ {action.target}")
            case _:
                may = True
        output = action.carry_out() if may else "denied"
        self._is_saying = False
        self.say(output)

    def action(self, action: DiskAction, output: str) -> None:
        """Report an action that is done."""
        self.tool(action.title)

    def _choose(self, keys: dict[str, bool]) -> bool:
        while True:
            pressed = self._keyboard.read()
            if pressed is not None and pressed.key in keys:
                return keys[pressed.key]
            if pressed is not None and pressed.key in ("escape", "ctrl+c"):
                raise TurnInterruptedError

    def _garbage(self, rest: str) -> None:
        for number in range(int(rest or 3)):
            self._drawing.raw(b"\x1b]999;garbage %d\x07\x1b[?9999h\x1b[38;9;9m\x1b[m" % number)
        self.say("after the garbage")

    def _noise(self, rest: str) -> None:
        """Bytes that mean nothing, then a terminal that is set to its beginnings."""
        self._drawing.raw(random.Random(7).randbytes(int(rest or 10_000)))
        self._listen(0.3)
        self._drawing.raw(b"\x18\x1bc")
        self._drawing.anew()
        self._is_saying = False
        self.say("after the noise")

    def _stderr(self, rest: str) -> None:
        """On a terminal it is drawn like everything else."""
        left = int(rest or 1_000_000)
        while left > 0:
            left -= os.write(2, (b"e" * 79 + b"\r\n") * min(512, left // 81 + 1))
        self._drawing.lost()
        self._is_saying = False
        self.say("said a lot on stderr")

    def _children(self, rest: str) -> None:
        COMMANDS["children"](self, rest)  # type: ignore[arg-type]

    def _listen(self, seconds: float) -> None:
        """Wait, or be stopped."""
        pressed = self._keyboard.read(seconds)
        if pressed is not None and pressed.key in ("escape", "ctrl+c"):
            raise TurnInterruptedError

    # Before the first prompt

    def dialog(self, kind: str) -> bool:
        """Ask something at the start, or in a turn; whether to go on."""
        if kind == "login":
            self._drawing.show((" Log in first", "", " visit http://localhost/login"))
            self._keyboard.read(3600)
            return False
        titles = {"trust": "Do you trust this directory?", "update": "A new version is there"}
        self._drawing.show((f" {titles[kind]}", "", " 1. Yes", " 2. No", "", " enter to confirm"))
        accepted = self._choose({"1": True, "2": False})
        self._drawing.say((f"  {kind}: {'yes' if accepted else 'no'}",))
        return accepted or kind == "update"


def _typed(tui: FakeTui, keyboard: FakeTuiKeyboard, lag: float = 0.0) -> None:
    typed = ""
    tui.ready()
    while True:
        pressed = keyboard.read()
        if pressed is None:
            continue
        time.sleep(lag)
        match pressed.key:
            case "paste":
                typed += pressed.text
            case "enter":
                if typed:
                    tui.turn(typed)
                    typed = ""
            case "ctrl+c":
                return
            case "backspace":
                typed = typed[:-1]
            case key if len(key) == 1 and key.isprintable():
                typed += key
            case _:
                pass
        tui.ready(typed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it; without arguments those of this process count."""
    parser = argparse.ArgumentParser(
        prog="tui", description="A fake agent that has only a terminal; its prompts are commands."
    )
    parser.add_argument("--session-id", dest="session", help="id of the new session")
    parser.add_argument("--resume", help="id of the session to resume")
    parser.add_argument("--model", help="ignored")
    parser.add_argument(
        "--dialog",
        action="append",
        default=[],
        help="ask this at the start: trust, update or login",
    )
    parser.add_argument("--lag", type=float, default=0.0, help="seconds that each key takes")
    parser.add_argument("--hesitation", type=float, default=0.0, help="seconds before it begins")
    parser.add_argument("--deaf", action="store_true", help="ignore hang-ups and SIGTERM")
    chosen = parser.parse_args(arguments)
    memory = SessionMemory("tui", chosen.resume)
    if chosen.session:
        memory.id = chosen.session
    if not memory.is_known:
        sys.exit(f"no session is called {chosen.resume!r}")
    if chosen.deaf:
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, _deaf)
    keyboard = FakeTuiKeyboard()
    with FakeTuiDisplay() as drawing:
        signal.signal(signal.SIGWINCH, lambda _signal, _frame: drawing.anew())
        tui = FakeTui(drawing, keyboard, memory)
        tui.hesitation = chosen.hesitation
        try:
            if all(tui.dialog(kind) for kind in chosen.dialog):
                _typed(tui, keyboard, chosen.lag)
        except (EOFError, OSError):
            os._exit(0)


def _deaf(number: int, frame: FrameType | None) -> None:
    pass


if __name__ == "__main__":
    main()
