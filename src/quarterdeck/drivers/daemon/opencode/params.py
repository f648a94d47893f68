"""What an opening asks for, in the words of ``opencode serve``."""

from collections.abc import Mapping
from dataclasses import dataclass
from secrets import choice
from typing import Any

from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.content import (
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from ...agent_process import Launch
from ...command_line import render_agent_mode
from ...driver import DriverSessionOptions
from ...errors import UnsupportedError

__all__ = [
    "OpencodeMode",
    "model_of",
    "new_prompt_id",
    "parse_opencode_mode",
    "parts_of",
    "rules_of",
]

_ASKED = ("edit", "bash", "webfetch", "websearch", "codesearch", "external_directory", "*_*")
"""All that changes or leaves the workspace; ``*_*`` are the tools of MCP servers.

Not ``*``: what the person has denied himself stays denied, and reading is not asked about.
"""
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpencodeMode:
    """Which of opencode's agents answers, and whether it asks."""

    agent: str | None = None
    """Its name; None: the server's own choice."""
    asks: bool = True


def parse_opencode_mode(launch: Launch, mode: str | None) -> OpencodeMode:
    """What a mode of opencode's own means; its words are an agent, and ``allow`` or nothing.

    Raises:
        UnsupportedError: its file has no such mode.
    """
    if mode is None:
        return OpencodeMode()
    agent, effect = (*render_agent_mode(launch, "daemon", mode), "", "")[:2]
    return OpencodeMode(agent=agent or None, asks=effect != "allow")


def rules_of(opening: DriverSessionOptions, mode: OpencodeMode) -> list[dict[str, str]]:
    """The session's rules; they come after the person's own, and the last that fits decides."""
    action = "ask" if mode.asks else "allow"
    rules = [_rule(name, "*", action) for name in _ASKED]
    for root in opening.options.roots:
        rules += [_rule("external_directory", f"{root}{end}", "allow") for end in ("", "/*")]
    return rules


def _rule(permission: str, pattern: str, action: str) -> dict[str, str]:
    return {"permission": permission, "pattern": pattern, "action": action}


def model_of(launch: Launch, model: str) -> tuple[str, str]:
    """The vendor and the name of a model.

    Raises:
        UnsupportedError: the name has no vendor.
    """
    vendor, _, name = model.partition("/")
    if not vendor or not name:
        what = f"use the model {model!r}"
        raise UnsupportedError(launch.agent, "daemon", what, "Write it as vendor/model.")
    return vendor, name


def new_prompt_id() -> str:
    """An id for a prompt, made as opencode makes its own: they are ordered by time.

    The answer's id must be greater, so ours is the first of its millisecond.
    """
    now = (read_wall_clock() // 1_000 * 0x1000) & 0xFFFF_FFFF_FFFF
    return f"msg_{now:012x}{''.join(choice(_ALPHABET) for _ in range(14))}"


def parts_of(launch: Launch, content: tuple[ContentBlock, ...]) -> list[Mapping[str, Any]]:
    """A prompt's content as opencode takes it.

    Raises:
        UnsupportedError: it takes no such content.
    """
    return [_part(launch, one) for one in content]


def _part(launch: Launch, block: ContentBlock) -> Mapping[str, Any]:
    match block:
        case TextContent():
            return {"type": "text", "text": block.text}
        case ImageContent():
            return _file(block.mime_type, f"data:{block.mime_type};base64,{block.data}")
        case ResourceLink():
            return {"type": "text", "text": f"[{block.name}]({block.uri})"}
        case EmbeddedResource():
            resource = block.resource
            if resource.text is not None:
                text = f'<context ref="{resource.uri}">\n{resource.text}\n</context>'
                return {"type": "text", "text": text}
            mime_type = resource.mime_type or "application/octet-stream"
            return _file(mime_type, f"data:{mime_type};base64,{resource.blob or ''}")
        case _:
            raise UnsupportedError(launch.agent, "daemon", "take sound")


def _file(mime_type: str, url: str) -> dict[str, Any]:
    return {"type": "file", "mime": mime_type, "url": url}
