"""Requests of Codex that ask for more than their call: shown, asked about, and granted once."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from quarterdeck.drivers.daemon.codex import requests
from quarterdeck.drivers.daemon.codex.items import script_of
from quarterdeck.drivers.daemon.codex.requests import CodexRequestHandler
from quarterdeck.drivers.link import PermissionVerdict
from quarterdeck.drivers.permissions import call_of
from quarterdeck.policy.decision import Allow, Ask
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.modes import Mode
from quarterdeck.wire.events import PermissionAsked

if TYPE_CHECKING:
    from quarterdeck.drivers.link import LinkHost

COMMAND = "item/commandExecution/requestApproval"
CHANGE = "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
EVERYTHING = ("allow *", "allow bash", "allow edit", "allow fetch", "allow fetch(*.example)")

COMMAND_FIELDS = (
    *("additionalPermissions", "approvalId", "availableDecisions", "command", "commandActions"),
    *("cwd", "environmentId", "itemId", "kind", "networkApprovalContext", "reason", "startedAtMs"),
    *("proposedExecpolicyAmendment", "proposedNetworkPolicyAmendments", "threadId", "turnId"),
)
"""Of Codex 0.166, from ``codex app-server generate-json-schema --experimental``."""
CHANGE_FIELDS = ("grantRoot", "itemId", "reason", "startedAtMs", "threadId", "turnId")

ORDINARY: dict[str, Any] = {
    "kind": "command",
    "threadId": "t",
    "turnId": "u",
    "itemId": "c",
    "startedAtMs": 1794783097674,
    "environmentId": "local",
    "reason": "The script asks for it",
    "command": "/bin/bash -lc ls",
    "commandActions": [{"type": "unknown", "command": "ls"}],
    "proposedExecpolicyAmendment": ["ls"],
    "availableDecisions": ["accept", {"acceptWithExecpolicyAmendment": {}}, "cancel"],
}


class DecidingHost:
    """Decides by a gate; what a person would be asked is allowed."""

    def __init__(self, cwd: Path, mode: Mode = "ask", *rules: str) -> None:
        self.gate = Gate(mode=mode, rules=tuple(parse_rule(one) for one in rules))
        self.around = CallContext(cwd=str(cwd), roots=(str(cwd),))
        self.asked: list[PermissionAsked] = []
        self.decided: list[Any] = []

    async def permit(self, question: PermissionAsked) -> PermissionVerdict:
        self.asked.append(question)
        call = await call_of(question, self.around, self.gate)
        self.decided.append(await self.gate.judge(call))
        return PermissionVerdict(allowed=True)


async def ask(host: DecidingHost, method: str, *requested: dict[str, Any], **item: Any) -> Any:
    handler = CodexRequestHandler(cast("LinkHost", host))
    if item:
        handler.saw("item/started", {"item": {"id": "c", **item}})
    try:
        answers = [await handler.answer(1, method, one) for one in requested]
    finally:
        await handler.close()
    return answers[-1]


async def test_an_ordinary_command_is_decided_by_its_words(tmp_path: Path):
    host = DecidingHost(tmp_path)
    answer = await ask(host, COMMAND, {**ORDINARY, "cwd": str(tmp_path)})
    assert isinstance(host.decided[0], Allow)
    # The amendment that it proposes for later is never accepted.
    assert answer == {"decision": "accept"}
    assert host.asked[0].raw_input["justification"] == "The script asks for it"


WIDER = {
    "permissions": {"additionalPermissions": {"network": {"enabled": True}}},
    "files": {"additionalPermissions": {"fileSystem": {"write": ["/"]}}},
    "network": {"networkApprovalContext": {"host": "a.example", "protocol": "https"}},
    "socks": {"networkApprovalContext": {"host": "a.example", "protocol": "socks5Tcp"}},
    "unknown": {"grantEverything": True},
}


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "full-auto"])
@pytest.mark.parametrize("more", WIDER.values(), ids=WIDER.keys())
async def test_what_it_asks_for_besides_is_asked_about_whatever_is_allowed(
    more: dict[str, Any], mode: Mode, tmp_path: Path
):
    host = DecidingHost(tmp_path, mode, *EVERYTHING)
    await ask(host, COMMAND, {**ORDINARY, **more})
    (decision,) = host.decided
    assert isinstance(decision, Ask) and "also grant" in decision.reason
    ((key, value),) = more.items()
    assert host.asked[0].raw_input[key] == value


async def test_a_network_request_without_a_command_is_asked_about(tmp_path: Path):
    host = DecidingHost(tmp_path, "full-auto", *EVERYTHING)
    network = {"host": "a.example", "protocol": "http"}
    asked = {"itemId": "c", "command": None, "networkApprovalContext": network}
    await ask(host, COMMAND, asked)
    assert isinstance(host.decided[0], Ask) and "a.example" in host.asked[0].title


@pytest.mark.parametrize(
    "more", [{"kind": "writeStdin"}, {"environmentId": "cloud-7"}, {"kind": "somethingNew"}]
)
async def test_where_and_as_what_it_runs_may_be_in_doubt(more: dict[str, Any], tmp_path: Path):
    host = DecidingHost(tmp_path, "ask", "allow bash(ls)")
    await ask(host, COMMAND, {**ORDINARY, **more})
    assert isinstance(host.decided[0], Ask)


async def test_a_directory_to_write_below_is_asked_about(tmp_path: Path):
    change = {"path": str(tmp_path / "a"), "kind": {"type": "add"}, "diff": "+a"}
    item = {"type": "fileChange", "changes": [change]}
    host = DecidingHost(tmp_path, "accept-edits")
    await ask(host, CHANGE, {"itemId": "c", "grantRoot": None}, **item)
    assert isinstance(host.decided[0], Allow)
    host = DecidingHost(tmp_path, "accept-edits", *EVERYTHING)
    await ask(host, CHANGE, {"itemId": "c", "grantRoot": str(tmp_path)}, **item)
    assert isinstance(host.decided[0], Ask)
    assert host.asked[0].raw_input["grantRoot"] == str(tmp_path)


async def test_a_wider_sandbox_is_asked_about_and_ends_with_the_turn(tmp_path: Path):
    wanted = {"network": {"enabled": True}, "fileSystem": None}
    rules = (*EVERYTHING, "allow tool(request_permissions)")
    host = DecidingHost(tmp_path, "full-auto", *rules)
    reason = "Run the tests"
    asked = {"itemId": "c", "cwd": "/", "permissions": wanted, "reason": reason}
    answer = await ask(host, PERMISSIONS, asked)
    assert isinstance(host.decided[0], Ask)
    # The agent's words are shown as its words.
    assert reason not in host.asked[0].title
    assert host.asked[0].raw_input["justification"] == reason
    assert answer == {"permissions": {"network": {"enabled": True}}, "scope": "turn"}


async def test_an_id_that_two_calls_have_is_asked_about(tmp_path: Path):
    def change(name: str) -> dict[str, Any]:
        changes = [{"path": str(tmp_path / name), "kind": {"type": "add"}, "diff": "+a"}]
        return {"item": {"id": "c", "type": "fileChange", "changes": changes}}

    host = DecidingHost(tmp_path, "accept-edits")
    handler = CodexRequestHandler(cast("LinkHost", host))
    handler.saw("item/started", change("a"))
    handler.saw("item/started", change("a"))
    await handler.answer(1, CHANGE, {"itemId": "c"})
    handler.saw("item/started", change("b"))
    await handler.answer(2, CHANGE, {"itemId": "c"})
    await handler.close()
    assert [type(one) for one in host.decided] == [Allow, Ask]


async def test_a_request_that_comes_again_for_something_else_is_decided_again(tmp_path: Path):
    host = DecidingHost(tmp_path)
    other = {**ORDINARY, "command": "rm -rf /"}
    await ask(host, COMMAND, ORDINARY, {**ORDINARY, "startedAtMs": 2}, other)
    assert [type(one) for one in host.decided] == [Allow, Ask]


@pytest.mark.parametrize("shell", ["./sh", "/tmp/x/bash", "evil/zsh", "~/bin/sh", "/bin/ksh"])
async def test_a_shell_that_the_model_names_is_not_looked_through(shell: str, tmp_path: Path):
    assert script_of(f"{shell} -lc ls") == f"{shell} -lc ls"
    host = DecidingHost(tmp_path)
    await ask(host, COMMAND, {**ORDINARY, "command": f"{shell} -c ls"})
    assert isinstance(host.decided[0], Ask)
    assert script_of("/bin/zsh -lc 'make all'") == "make all"


def test_every_field_of_the_vendors_protocol_is_known():
    known = requests._QUIET | requests._WIDER.keys()  # pyright: ignore[reportPrivateUsage]
    assert set(COMMAND_FIELDS) | set(CHANGE_FIELDS) <= known
