"""Commands for a chat: its input and queue, its transcript."""

import asyncio
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.terminal_text import count_noun

from ..mentions import IMAGE_TYPES, find_file, format_mention
from ..panels.panel import Panel
from ..stores.blocks import RunBlock, TextBlock
from ..stores.search import read_whole_text

if TYPE_CHECKING:
    from ..app import Workbench
    from ..stores.blocks import Block, ShownBlock
    from ..stores.transcript import TranscriptStore

__all__ = [
    "RequestDecisionError",
    "attach_file",
    "choose_prompt",
    "copy_block",
    "copy_code",
    "copy_last_answer",
    "decide_request",
    "find_editor_command",
    "go_to_earlier_prompt",
    "go_to_later_prompt",
    "go_to_start",
    "open_external_editor",
    "open_whole_block",
    "search_transcript",
    "show_queue",
    "toggle_fold",
    "toggle_times",
]


_DECISIONS = {
    "once": "choose('y')",
    "session": "choose('s')",
    "project": "choose('p')",
    "deny": "choose('n')",
    "all": "choose_all('y')",
    "session-all": "choose_all('s')",
    "project-all": "choose_all('p')",
    "deny-all": "choose_all('n')",
    "words": "deny",
    "rule": "rule",
    "more": "more",
    "later": "later",
}
"""What can be said to a permission request, and the action of its card."""


class RequestDecisionError(QuarterdeckError):
    """There is no such answer, or no request to give it to."""


async def decide_request(app: "Workbench", words: str) -> None:
    """Answer the permission request that has the focus. Raises RequestDecisionError."""
    from ..screens.permission import PermissionCard

    action = _DECISIONS.get(words.strip())
    if action is None:
        raise RequestDecisionError(
            f"cannot decide {words!r}; choose one of {', '.join(_DECISIONS)}"
        )
    card = app.requests.current
    if not isinstance(card, PermissionCard):
        raise RequestDecisionError("no permission request has the focus; ctrl+g opens one")
    await card.run_action(action)


def show_queue(app: "Workbench", _: str) -> None:
    """Show the prompts that wait, to change or drop them."""
    from ..screens.queue import QueueScreen

    panel = app.main.panel
    agent = app.context.roster.find(panel.session)
    if agent is None or not agent.queue:
        app.show_message("no queued prompts")
        return
    app.push_screen(QueueScreen(app.context, agent.session, panel.chat.add_text))


async def attach_file(app: "Workbench", words: str) -> None:
    """Name a file in the input; an image goes along with the prompt."""
    panel = app.main.panel
    agent = app.context.roster.find(panel.session)
    cwd = agent.cwd if agent is not None else app.context.cwd
    path = await asyncio.to_thread(find_file, words.strip().strip("'\""), cwd)
    if path is None:
        app.show_message(f"no file {words!r} in {cwd!r}", True)
        return
    takes_images = agent is None or agent.takes_images is not False
    if path.suffix.lower() in IMAGE_TYPES and not takes_images:
        app.show_message("this agent does not accept images; it gets a link to the file")
    panel.chat.insert(format_mention(str(path)) + " ")
    panel.chat.focus()


def find_editor_command(environment: Mapping[str, str]) -> list[str] | None:
    """The person's editor as words of a command; None: none is set."""
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(environment.get(name, ""))
        except ValueError:
            continue
        if words:
            return words
    return None


async def open_external_editor(app: "Workbench", _: str) -> None:
    """Change what is typed in the editor that $VISUAL or $EDITOR names."""
    from textual.app import SuspendNotSupported

    command = find_editor_command(os.environ)
    if command is None:
        app.show_message("no editor: set VISUAL or EDITOR and restart", True)
        return
    chat = app.main.chat
    before = chat.full_text
    path = await asyncio.to_thread(_write, before)
    try:
        # The screen is the editor's until it ends; nothing of ours may be drawn meanwhile, and the
        # feed goes on afterwards from where it was.
        with app.suspend():
            code = _run(command, path)
    except SuspendNotSupported:
        app.show_message("cannot open an editor in this terminal", True)
        return
    except OSError as error:
        app.show_message(f"cannot start {command[0]!r}: {error.strerror}", True)
        return
    finally:
        after = await asyncio.to_thread(_read, path)
    if code:
        app.show_message(f"{command[0]!r} exited with {code}; the input is unchanged", True)
    elif after is not None and after != before:
        chat.set_text(after)


def _run(command: list[str], path: str) -> int:
    """Run an editor in the foreground; it is the person's, with all of their environment."""
    return subprocess.run([*command, path], check=False).returncode


def _write(text: str) -> str:
    handle, path = tempfile.mkstemp(prefix="quarterdeck-", suffix=".md")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return path


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text("utf-8", "replace").removesuffix("\n")
    except OSError:
        return None
    finally:
        Path(path).unlink(missing_ok=True)


_MOST_COPIED = 4_000_000
"""Characters; terminals take no more than that at once, most less."""


def search_transcript(app: "Workbench", words: str) -> None:
    """Look for something in all of the transcript."""
    app.main.transcript.action_search(words)


def go_to_earlier_prompt(app: "Workbench", _: str) -> None:
    """Go to the prompt before the place in view."""
    app.main.transcript.action_jump(-1)


def go_to_later_prompt(app: "Workbench", _: str) -> None:
    """Go to the next prompt."""
    app.main.transcript.action_jump(1)


def go_to_start(app: "Workbench", _: str) -> None:
    """Go to the beginning of the transcript."""
    app.main.transcript.action_start()


def toggle_fold(app: "Workbench", _: str) -> None:
    """Fold or unfold the block under the cursor."""
    app.main.transcript.action_fold()


async def copy_block(app: "Workbench", _: str) -> None:
    """Copy the block under the cursor as it was written; without a cursor the last answer."""
    await _copy(app, app.main.transcript.marked or _last_answer(app))


async def copy_code(app: "Workbench", words: str) -> None:
    """Copy the code of an answer: of the marked one, or the last; ``words``: which, from 1 on.

    Without a number it is the last code, and each time again the one before.
    """
    from ..rendering.markdown import find_code

    view = app.main.transcript
    marked = view.marked
    block = marked if isinstance(marked, TextBlock) and marked.kind == "message" else None
    block = block or _last_answer(app)
    if block is None or view.store is None:
        app.show_message("nothing to copy yet", True)
        return
    text = await read_whole_text(view.store.read, block)
    codes = await asyncio.to_thread(find_code, text)
    number = _find_number(words.strip(), len(codes), view.copied_code, block.first)
    if not codes or number is None:
        missing = f"no code {words.strip()}" if codes else "no code"
        app.show_message(f"there is {missing} in this answer", True)
        return
    view.copied_code = (block.first, number)
    code = codes[number - 1]
    app.copy_to_clipboard(code.text)
    language = f" {code.language}" if code.language else ""
    lines = code.text.rstrip("\n").count("\n") + 1
    app.show_message(f"copied{language} code {number} of {len(codes)}, {count_noun(lines, 'line')}")


def _find_number(words: str, count: int, copied: tuple[int, int], block: int) -> int | None:
    """Which code to copy, from 1 on; None: there is none with this number."""
    if words:
        return int(words) if words.isdigit() and 1 <= int(words) <= count else None
    again = copied[0] == block and copied[1] > 1
    return copied[1] - 1 if again else count


def choose_prompt(app: "Workbench", _: str) -> None:
    """Show the prompts of this agent, and go to the one that is chosen."""
    from ..screens.pickers import PromptsScreen

    view = app.main.transcript
    store = view.store
    if store is None or not store.blocks:
        app.show_message("the transcript is empty", True)
        return

    def chosen(seq: int | None) -> None:
        if seq is not None and view.store is store:
            view.go_to(seq)

    app.push_screen(PromptsScreen(store, view.top_seq), chosen)


def toggle_times(app: "Workbench", _: str) -> None:
    """Show when each part of the transcript came, or show it no longer."""
    app.main.transcript.toggle_times()


async def copy_last_answer(app: "Workbench", _: str) -> None:
    """Copy what the agent said last."""
    await _copy(app, _last_answer(app))


async def open_whole_block(app: "Workbench", _: str) -> None:
    """Put all of a block into a file, and show that."""
    view = app.main.transcript
    block = view.marked or _last_answer(app)
    if block is None or view.store is None:
        app.show_message("the transcript is empty", True)
        return
    text = await _read_text(view.store, block)
    path = await asyncio.to_thread(_write_block, text)
    app.show_message(f"saved {len(text):,} characters to {path}")
    view.post_message(Panel.FileWanted(path))


async def _read_text(store: "TranscriptStore", block: "ShownBlock") -> str:
    """All that a block says; of a run what each of its calls says."""
    blocks: tuple[Block, ...] = block.calls if isinstance(block, RunBlock) else (block,)
    return "\n".join([await read_whole_text(store.read, one) for one in blocks])


def _last_answer(app: "Workbench") -> "TextBlock | None":
    """What the agent said last, as far as it is in the window."""
    store = app.main.transcript.store
    blocks = reversed(store.blocks if store is not None else ())
    return next((b for b in blocks if isinstance(b, TextBlock) and b.kind == "message"), None)


async def _copy(app: "Workbench", block: "ShownBlock | None") -> None:
    store = app.main.transcript.store
    if block is None or store is None:
        app.show_message("nothing to copy yet", True)
        return
    text = await _read_text(store, block)
    if len(text) > _MOST_COPIED:
        app.show_message(
            f"too large to copy ({len(text):,} characters); /whole saves it to a file", True
        )
        return
    app.copy_to_clipboard(text)
    lines = text.count("\n") + 1
    app.show_message(f"copied {lines:,} lines" if lines > 1 else f"copied {len(text):,} characters")


def _write_block(text: str) -> str:
    directory = Path(tempfile.mkdtemp(prefix="quarterdeck-"))
    path = directory / "block.md"
    path.write_text(text, "utf-8", "backslashreplace")
    return str(path)
