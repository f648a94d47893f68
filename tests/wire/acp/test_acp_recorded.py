"""Traffic of real agents, as it was recorded: every frame can be read.

The files are named after the agent, its version and the scene.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from quarterdeck.wire.acp import schema
from quarterdeck.wire.acp.connection import decode, decode_update, encode

FOLDER = Path(__file__).parents[2] / "fixtures" / "acp"
FILES = sorted(FOLDER.glob("*.jsonl"))
EXTENSIONS = {"_auth/status_update"}
"""Methods of agents' own that occur in the files."""


def frames(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return direction (``c2a``, ``a2c``) and message of each frame."""
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    return [(line["dir"], line["msg"]) for line in lines]


def type_of(direction: str, message: dict[str, Any]) -> Any:
    agent = direction == "c2a"
    methods = schema.AGENT_METHODS if agent else schema.CLIENT_METHODS
    notifications = schema.AGENT_NOTIFICATIONS if agent else schema.CLIENT_NOTIFICATIONS
    found = (methods if "id" in message else notifications).get(message["method"])
    return None if found is None else found.params


def read(type_: Any, value: Any) -> Any:
    raw = msgspec.json.encode(value)
    return decode_update(raw) if type_ is schema.SessionNotification else decode(type_, raw)


def test_there_are_recordings_of_four_agents():
    agents = {path.name.rpartition("-")[0] for path in FILES}
    assert agents == {"claude-agent-acp", "codex-acp", "gemini-cli", "opencode"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_recorded_frame_can_be_read(path: Path):
    asked: dict[tuple[str, Any], str] = {}
    unknown: set[str] = set()
    count = 0
    for direction, message in frames(path):
        if "method" in message:
            if "id" in message:
                asked[direction, message["id"]] = message["method"]
            type_ = type_of(direction, message)
            if type_ is None:
                unknown.add(message["method"])
                continue
            value = read(type_, message.get("params"))
            assert not isinstance(getattr(value, "update", None), schema.UnknownUpdate), message
        elif "result" in message:
            back = "a2c" if direction == "c2a" else "c2a"
            method = (schema.AGENT_METHODS | schema.CLIENT_METHODS)[asked[back, message["id"]]]
            value = read(method.result, message["result"])
        else:
            continue
        assert read(type(value), msgspec.json.decode(encode(value))) == value
        count += 1
    assert count >= 5
    assert unknown <= EXTENSIONS
