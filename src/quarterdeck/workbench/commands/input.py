"""What people do with the input, by name: its queue, an editor of their own, files."""

import asyncio
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..mentions import IMAGE_TYPES, find_file, format_mention

if TYPE_CHECKING:
    from ..app import Workbench

__all__ = ["attach_file", "find_editor_command", "open_external_editor", "show_queue"]


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
