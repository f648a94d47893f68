"""Rigs for agents that run once for each turn, with the words of their files."""

import sys
from dataclasses import replace
from functools import partial
from typing import Any

from quarterdeck.drivers.agent_process import Launch
from quarterdeck.drivers.pipe.codex import CODEX
from quarterdeck.drivers.pipe.cursor import CURSOR
from quarterdeck.drivers.pipe.dialect import PipeDialect
from quarterdeck.drivers.pipe.gemini import GEMINI
from quarterdeck.drivers.pipe.generic import generic
from quarterdeck.drivers.pipe.oneshot_link import OneshotLink
from quarterdeck.drivers.pipe.opencode import OPENCODE
from quarterdeck.drivers.pipe.pi import PI
from tests.support.driver_rig import Rig

__all__ = ["LAUNCHES", "RIGS", "dialect_of", "link"]

EVENTS: dict[str, Any] = {
    "streams": True,
    "result_is_due": True,
    "rules": [
        {"means": "session", "when": {"event": "hello"}, "id": "chat.id"},
        {"means": "text", "when": {"event": "speech"}, "text": "data.words"},
        {"means": "thought", "when": {"event": "musing"}, "text": "data.words"},
        {
            "means": "tool",
            "when": {"event": "act"},
            "id": "act.id",
            "name": "act.tool",
            "title": "act.input.command",
            "input": "act.input",
        },
        {
            "means": "tool_end",
            "when": {"event": "acted"},
            "id": "act.id",
            "output": "act.output",
            "failed": "act.trouble",
            "text": "act.trouble",
        },
        {
            "means": "plan",
            "when": {"event": "plan"},
            "input": "steps",
            "text": "what",
            "status": "state",
        },
        {"means": "result", "when": {"event": "bye"}, "failed": "trouble", "text": "trouble"},
        {"means": "usage", "when": {"event": "bye"}, "input": "tokens.in", "output": "tokens.out"},
    ],
}


def _fake(name: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "quarterdeck.testing.oneshot_cli", "--as", name, *words)


LAUNCHES = {
    "codex": Launch(
        agent="codex",
        command=_fake("codex", "exec", "--json", "--skip-git-repo-check"),
        dialect="codex",
        words={
            "model": ("--model", "{}"),
            "roots": ("--add-dir", "{}"),
            "resume": ("resume", "{}"),
            "fork": ("fork", "{}"),
            "prompt": ("-",),
        },
        modes={
            "ask": ("--sandbox", "read-only"),
            "read-only": ("--sandbox", "read-only"),
            "plan": ("--sandbox", "read-only"),
            "accept-edits": ("--sandbox", "workspace-write"),
            "full-auto": ("--sandbox", "workspace-write"),
        },
        agent_modes={"danger-full-access": ("--sandbox", "danger-full-access")},
    ),
    "gemini": Launch(
        agent="gemini",
        command=_fake("gemini", "--output-format", "stream-json"),
        dialect="gemini",
        words={
            "model": ("--model", "{}"),
            "resume": ("--resume", "{}"),
            "roots": ("--include-directories", "{}"),
        },
        modes={
            "ask": ("--approval-mode", "default"),
            "plan": ("--approval-mode", "plan"),
            "accept-edits": ("--approval-mode", "auto_edit"),
        },
        agent_modes={"yolo": ("--approval-mode", "yolo")},
    ),
    "opencode": Launch(
        agent="opencode",
        command=_fake("opencode", "run", "--format", "json", "--thinking"),
        dialect="opencode",
        words={
            "model": ("--model", "{}"),
            "resume": ("--session", "{}"),
            "fork": ("--session", "{}", "--fork"),
            "title": ("--title", "{}"),
        },
        modes={"ask": (), "read-only": (), "accept-edits": (), "plan": ("--agent", "plan")},
        agent_modes={"auto": ("--auto",)},
    ),
    "cursor": Launch(
        agent="cursor",
        command=_fake("cursor", "--print", "--output-format", "stream-json"),
        dialect="cursor",
        words={"model": ("--model", "{}"), "resume": ("--resume", "{}")},
        modes={"ask": ("--mode", "ask"), "plan": ("--mode", "plan")},
        agent_modes={"force": ("--force",)},
    ),
    "pi": Launch(
        agent="pi",
        command=_fake("pi", "--mode", "json", "--print"),
        dialect="pi",
        words={
            "model": ("--model", "{}"),
            "resume": ("--session", "{}"),
            "fork": ("--fork", "{}"),
            "rewind": ("--mode", "rpc"),
            "system_prompt": ("--append-system-prompt", "{}"),
        },
        modes={
            "ask": ("--tools", "read,grep,find,ls"),
            "accept-edits": ("--tools", "read,grep,find,ls,edit,write"),
        },
        agent_modes={"all-tools": ()},
    ),
    "generic": Launch(
        agent="generic",
        command=_fake("generic", "--quiet"),
        dialect="generic",
        words={"model": ("--model", "{}"), "resume": ("--again", "{}")},
        modes={"ask": (), "full-auto": ("--trust-level", "high")},
        events=EVENTS,
    ),
}
_DIALECTS = {one.name: one for one in (CODEX, GEMINI, OPENCODE, CURSOR, PI)}


def dialect_of(launch: Launch) -> PipeDialect:
    return generic(launch) if launch.dialect == "generic" else _DIALECTS[launch.dialect]


def link(name: str, **changes: Any) -> OneshotLink:
    """A link to a fake; ``changes`` are fields of its launch."""
    launch = replace(LAUNCHES[name], **changes)
    return OneshotLink(launch, dialect_of(launch))


RIGS = [Rig(name=f"{name}-pipe", make=partial(link, name)) for name in LAUNCHES]
