"""What an opening asks for, in the words of ``codex app-server``."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from quarterdeck.wire.content import (
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from quarterdeck.wire.session_options import AgentMcpServer

from ...agent_process import Launch
from ...command_line import render_agent_mode
from ...driver import DriverSessionOptions
from ...errors import UnsupportedError

__all__ = ["CodexMode", "input_of", "parse_codex_mode", "thread_params"]

_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]+")
_POLICIES = {
    "read-only": {"type": "readOnly"},
    "workspace-write": {"type": "workspaceWrite"},
    "danger-full-access": {"type": "dangerFullAccess"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexMode:
    """When codex asks, and what its sandbox lets a command do that it did not ask about."""

    approval: str = "untrusted"
    """Everything but commands that only read is asked about, so that our rules decide."""
    sandbox: str = "workspace-write"

    def thread(self) -> dict[str, Any]:
        """For a thread that is being opened."""
        return {
            "approvalPolicy": self.approval,
            "approvalsReviewer": "user",
            "sandbox": self.sandbox,
        }

    def turn(self, roots: Sequence[str] = ()) -> dict[str, Any]:
        """For the next turn and those after it."""
        return {"approvalPolicy": self.approval, "sandboxPolicy": self._policy(roots)}

    def differences(self, opened: Mapping[str, Any], roots: Sequence[str]) -> dict[str, Any]:
        """What a turn must say because the thread was opened otherwise.

        A thread that another client has open already keeps its own ways.
        """
        changes: dict[str, Any] = {}
        if opened.get("approvalPolicy", self.approval) != self.approval:
            changes["approvalPolicy"] = self.approval
        if opened.get("approvalsReviewer", "user") != "user":
            changes["approvalsReviewer"] = "user"
        policy, theirs = self._policy(roots), opened.get("sandbox")
        if (
            isinstance(theirs, dict)
            and cast("dict[str, Any]", theirs).get("type") != policy["type"]
        ):
            changes["sandboxPolicy"] = policy
        return changes

    def _policy(self, roots: Sequence[str]) -> dict[str, Any]:
        policy: dict[str, Any] = _POLICIES.get(self.sandbox, {"type": self.sandbox})
        if roots and self.sandbox == "workspace-write":
            return {**policy, "writableRoots": list(roots)}
        return policy


def parse_codex_mode(launch: Launch, mode: str | None) -> CodexMode:
    """What a mode of codex's own means; its words are an approval policy and a sandbox.

    Raises:
        UnsupportedError: its file has no such mode.
    """
    if mode is None:
        return CodexMode()
    approval, sandbox = (*render_agent_mode(launch, "daemon", mode), "", "")[:2]
    return CodexMode(approval=approval or "untrusted", sandbox=sandbox or "workspace-write")


def thread_params(
    launch: Launch, opening: DriverSessionOptions, codex_mode: CodexMode
) -> dict[str, Any]:
    """The params of ``thread/start``; those of resuming and forking are these and the thread.

    Raises:
        UnsupportedError: codex cannot do what is asked for.
    """
    config: dict[str, Any] = {}
    if opening.options.roots:
        config["sandbox_workspace_write"] = {"writable_roots": list(opening.options.roots)}
    if opening.options.mcp_servers:
        config["mcp_servers"] = {
            one.name: _server(launch, one) for one in opening.options.mcp_servers
        }
    params: dict[str, Any] = {"cwd": opening.options.cwd, **codex_mode.thread()}
    if opening.options.model is not None:
        params["model"] = opening.options.model
    if opening.options.system_prompt is not None:
        params["developerInstructions"] = opening.options.system_prompt
    if config:
        params["config"] = config
    return params


def _server(launch: Launch, server: AgentMcpServer) -> dict[str, Any]:
    if not _SERVER_NAME.fullmatch(server.name):
        raise UnsupportedError(
            launch.agent,
            "daemon",
            f"accept a tool server named {server.name!r}",
            "Use only letters, digits, '-' and '_' in its name.",
        )
    # Without, codex refuses every call of a tool that does not say that it only reads.
    leave = {"default_tools_approval_mode": "approve"} if server.is_ours else {}
    if server.url:
        return {"url": server.url, "http_headers": server.sent_headers, **leave}
    program, *arguments = server.command
    return {"command": program, "args": arguments, "env": server.variables, **leave}


def input_of(launch: Launch, content: tuple[ContentBlock, ...]) -> list[Mapping[str, Any]]:
    """A prompt's content as codex takes it.

    Raises:
        UnsupportedError: it takes no such content.
    """
    return [_block(launch, one) for one in content]


def _block(launch: Launch, block: ContentBlock) -> Mapping[str, Any]:
    match block:
        case TextContent():
            return _text(block.text)
        case ImageContent():
            return {"type": "image", "url": f"data:{block.mime_type};base64,{block.data}"}
        case ResourceLink():
            return _text(f"[{block.name}]({block.uri})")
        case EmbeddedResource():
            resource = block.resource
            content = resource.text
            if content is None:
                content = _decoded(launch, resource.blob or "", resource.mime_type)
            return _text(f'<context ref="{resource.uri}">\n{content}\n</context>')
        case _:
            raise UnsupportedError(launch.agent, "daemon", "take sound")


def _decoded(launch: Launch, blob: str, mime_type: str | None) -> str:
    try:
        return base64.b64decode(blob, validate=True).decode()
    except ValueError as error:
        what = f"accept a resource of type {mime_type!r}"
        raise UnsupportedError(launch.agent, "daemon", what) from error


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
