"""Homes of agents with sessions in them: recorded ones, and such as are made up."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from quarterdeck.drivers.history.history import AgentHistory
from quarterdeck.drivers.history.reader import HistoryEvent, HistorySession, ReadTally
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import MessageChunk, Prompted

__all__ = [
    "CLAUDE",
    "CLAUDE_SUB",
    "CODEX",
    "FIRST",
    "GEMINI",
    "LAB",
    "OPENCODE",
    "RECORDED",
    "claude_lines",
    "events_of",
    "history_in",
    "many_sessions",
    "prompts",
    "recorded_home",
    "said",
    "write_lines",
]

FIRST = ("claude", "codex", "gemini", "opencode")
"""The agents of ``recorded_home``."""
RECORDED = Path(__file__).parents[1] / "fixtures" / "history"
LAB = "/home/dev/lab"
CLAUDE = "649c0e84-e677-4338-b207-8561126c4d9f"
CLAUDE_SUB = "6d4e3bde-0e05-4476-835b-73524c370333"
CODEX = "01a1e357-aa3a-7c33-93c7-6696512fa9b0"
GEMINI = "4d08bc84-7101-40a6-8ad3-b2e120f0963f"
OPENCODE = "ses_e1ca7ec24ffeLsMXTC6pIBZEpP"


def recorded_home(home: Path, lab: str = LAB) -> Path:
    """A home in which all four agents have the recorded sessions, as if they worked in ``lab``."""
    shutil.copytree(RECORDED / "claude-2.1.325", home / ".claude")
    shutil.copytree(RECORDED / "codex-0.166.0", home / ".codex")
    shutil.copytree(RECORDED / "gemini-0.61.0", home / ".gemini")
    database = home / ".local/share/opencode/opencode.db"
    database.parent.mkdir(parents=True)
    script = (RECORDED / "opencode-1.18.33/opencode.sql").read_text()
    connection = sqlite3.connect(database)
    with connection:
        connection.executescript(script.replace(LAB, lab))
    connection.close()
    if lab != LAB:
        for file in home.rglob("*"):
            if file.suffix in (".jsonl", ".json") or file.name == ".project_root":
                file.write_text(file.read_text().replace(LAB, lab))
        slug = "".join(letter if letter.isalnum() else "-" for letter in lab)
        (home / ".claude/projects/-home-dev-lab").rename(home / ".claude/projects" / slug)
    return home


def history_in(home: Path, **variables: str) -> AgentHistory:
    """The history of whoever has this home."""
    return AgentHistory.of({"HOME": str(home), **variables})


async def events_of(
    history: AgentHistory, past: HistorySession, tally: ReadTally | None = None
) -> list[Any]:
    """The events of a session, without their places."""
    return [one.event for one in await read_all(history, past, tally)]


async def read_all(
    history: AgentHistory, past: HistorySession, tally: ReadTally | None = None
) -> list[HistoryEvent]:
    """All that a session tells."""
    return [one async for one in history.read(past, tally or ReadTally())]


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    """Write objects as lines of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def claude_lines(
    *prompts: str, cwd: str = LAB, id_: str = "one", day: str = "2026-01-01"
) -> list[dict[str, Any]]:
    """A session of Claude Code in which each prompt is answered by its own words."""
    lines: list[dict[str, Any]] = []
    for number, prompt in enumerate(prompts):
        shared = {
            "cwd": cwd,
            "sessionId": id_,
            "version": "2.0.0",
            "timestamp": f"{day}T00:00:{number:02}Z",
        }
        lines.append({"type": "user", "message": {"role": "user", "content": prompt}, **shared})
        answer = {
            "id": f"msg-{number}",
            "content": [{"type": "text", "text": f"You said {prompt}"}],
            "usage": {"input_tokens": 10, "output_tokens": 2},
        }
        lines.append({"type": "assistant", "message": answer, **shared})
    return lines


def many_sessions(home: Path, count: int, size: int = 430_000) -> int:
    """Fill a home with sessions of Claude Code and Codex; the bytes that they seem to have.

    All but the first and the last lines of each is a hole, so that it takes no room on the disk.
    """
    meta = {"cwd": LAB, "cli_version": "0.166.0", "base_instructions": {"text": "x" * 20_000}}
    prompt = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    total = 0
    for number in range(count):
        cwd = LAB if number % 50 == 0 else f"/home/dev/other-{number % 50}"
        uuid = f"00000000-0000-0000-0000-{number:012}"
        if number % 2:
            day = f"{number % 12 + 1:02}/{number % 28 + 1:02}"
            name = f"rollout-2026-{day.replace('/', '-')}T00-00-00-{uuid}.jsonl"
            path = home / ".codex/sessions/2026" / day / name
            head = [
                {"type": "session_meta", "payload": {"id": uuid, **meta, "cwd": cwd}},
                {"type": "response_item", "payload": prompt},
            ]
        else:
            slug = cwd.replace("/", "-")
            path = home / ".claude/projects" / slug / f"{uuid}.jsonl"
            head = claude_lines(f"prompt {number}", cwd=cwd, id_=uuid)
        write_lines(path, head)
        with path.open("r+b") as file:
            file.truncate(size)
            file.seek(size)
            file.write(b'\n{"type":"last-prompt"}\n')
        total += size
    return total


def prompts(events: list[Any]) -> list[str]:
    """What was asked, in order."""
    return [e.content[0].text for e in events if isinstance(e, Prompted)]


def said(events: list[Any]) -> list[str]:
    """What was said, piece by piece."""
    return [
        e.content.text
        for e in events
        if isinstance(e, MessageChunk) and isinstance(e.content, TextContent)
    ]
