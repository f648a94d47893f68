"""Commands that the person ran with ``!``: give one to the agent."""

import re
from typing import TYPE_CHECKING

from ..stores.blocks import ToolBlock
from ..stores.search import read_whole_text

if TYPE_CHECKING:
    from ..app import Workbench

__all__ = ["MOST_GIVEN", "give_command", "quote_command"]

MOST_GIVEN = 20_000
"""Characters of an output that an agent is given: its beginning and its end."""


async def give_command(app: "Workbench", _: str) -> None:
    """Quote a command and its output in the input: the marked one, or the last. Raises
    QuarterdeckError.
    """
    view = app.main.transcript
    if view.store is None:
        app.show_message("no agent is in view", True)
        return
    marked = view.marked
    commands = view.store.persons_commands()
    block = marked if isinstance(marked, ToolBlock) and marked.is_persons else None
    if block is None and commands:
        block = commands[0]
    if block is None:
        app.show_message("you ran no command here yet; ! and a command in the input runs one", True)
        return
    whole = await read_whole_text(view.store.read, block)
    chat = app.main.chat
    chat.move_cursor(chat.document.end)
    before = "\n\n" if chat.text.strip() else ""
    chat.add_text(before + quote_command(block, whole.partition("\n")[2]) + "\n")
    chat.focus()


def quote_command(block: ToolBlock, output: str) -> str:
    """A command with its output as the agent is given it; the middle of a long one is omitted."""
    output = output.strip("\n")
    if len(output) > MOST_GIVEN:
        head, tail = output[: MOST_GIVEN // 2], output[-MOST_GIVEN // 2 :]
        left = len(output) - len(head) - len(tail)
        output = f"{head}\n[… {left:,} characters omitted …]\n{tail}"
    end = {"in_progress": "still running", "cancelled": "stopped"}.get(block.status, "")
    end = end or f"exit {block.exit}"
    ticks = max((len(run) for run in re.findall(r"`+", output)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"I ran this command ({end}):\n{fence}\n$ {block.title}\n{output}\n{fence}"
