"""What people do with the transcript in view, by name: search, copy, go somewhere."""

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..panels.panel import Panel
from ..stores.blocks import TextBlock
from ..stores.search import read_whole_text

if TYPE_CHECKING:
    from ..app import Workbench
    from ..stores.blocks import Block

__all__ = [
    "copy_block",
    "copy_last_answer",
    "go_to_earlier_prompt",
    "go_to_later_prompt",
    "go_to_start",
    "open_whole_block",
    "search_transcript",
    "toggle_fold",
]

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
    text = await read_whole_text(view.store.read, block)
    path = await asyncio.to_thread(_write, text)
    app.show_message(f"saved {len(text):,} characters to {path}")
    view.post_message(Panel.FileWanted(path))


def _last_answer(app: "Workbench") -> "Block | None":
    """What the agent said last, as far as it is in the window."""
    store = app.main.transcript.store
    blocks = reversed(store.blocks if store is not None else ())
    return next((b for b in blocks if isinstance(b, TextBlock) and b.kind == "message"), None)


async def _copy(app: "Workbench", block: "Block | None") -> None:
    store = app.main.transcript.store
    if block is None or store is None:
        app.show_message("nothing to copy yet", True)
        return
    text = await read_whole_text(store.read, block)
    if len(text) > _MOST_COPIED:
        app.show_message(
            f"too large to copy ({len(text):,} characters); /whole saves it to a file", True
        )
        return
    app.copy_to_clipboard(text)
    lines = text.count("\n") + 1
    app.show_message(f"copied {lines:,} lines" if lines > 1 else f"copied {len(text):,} characters")


def _write(text: str) -> str:
    directory = Path(tempfile.mkdtemp(prefix="quarterdeck-"))
    path = directory / "block.md"
    path.write_text(text, "utf-8", "backslashreplace")
    return str(path)
