"""The official JSON schema of ACP v1 as a judge of single frames."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

__all__ = ["SCHEMA_IS_THERE", "FrameJudge", "definition_of", "judge", "needs_schema"]

FOLDER = Path(__file__).parents[2] / "build/node/node_modules/@agentclientprotocol/sdk/schema/v1"
SCHEMA_IS_THERE = FOLDER.is_dir()
needs_schema = pytest.mark.skipif(
    not SCHEMA_IS_THERE, reason="the official schema is not installed; run: make build/node/.done"
)


@cache
def definitions(*, unstable: bool) -> dict[str, Any]:
    name = "schema.unstable.json" if unstable else "schema.json"
    return json.loads((FOLDER / name).read_text())["$defs"]


@cache
def names(*, unstable: bool) -> dict[tuple[str, str], str]:
    """Definition names by method and the word they end with."""
    found: dict[tuple[str, str], str] = {}
    for name, schema in definitions(unstable=unstable).items():
        for ending in ("Request", "Response", "Notification"):
            if "x-method" in schema and name.endswith(ending):
                found[schema["x-method"], ending] = name
    return found


def definition_of(method: str, ending: str, *, unstable: bool) -> str | None:
    return names(unstable=unstable).get((method, ending))


@cache
def validator(name: str, *, unstable: bool) -> Any:
    schema = {"$ref": f"#/$defs/{name}", "$defs": definitions(unstable=unstable)}
    return jsonschema.Draft202012Validator(schema)


def judge(name: str, value: Any, *, unstable: bool = False) -> str | None:
    """Return what is wrong with a value of a definition, or None."""
    error = jsonschema.exceptions.best_match(validator(name, unstable=unstable).iter_errors(value))
    if error is None:
        return None
    return f"{name}: {error.json_path}: {error.message[:300]}"


class FrameJudge:
    """An observer of a peer that judges each frame which we send, and remembers what we answer."""

    def __init__(self, *, unstable: bool = False) -> None:
        self.unstable = unstable
        self.faults: list[str] = []
        self.sent: list[str] = []
        """The methods of all frames we sent, in order; an answer as ``= method``."""
        self._asked: dict[Any, str] = {}

    def __call__(self, direction: str, frame: bytes) -> None:
        message = json.loads(frame)
        if direction == "in":
            if "method" in message and "id" in message:
                self._asked[message["id"]] = message["method"]
            return
        if message.get("jsonrpc") != "2.0":
            self.faults.append(f"no version: {frame[:200]!r}")
        if "method" in message:
            self._judge_question(message)
        else:
            self._judge_answer(message)

    def _judge_question(self, message: dict[str, Any]) -> None:
        method = message["method"]
        self.sent.append(method)
        ending = "Request" if "id" in message else "Notification"
        name = definition_of(method, ending, unstable=self.unstable)
        if name is None:
            self.faults.append(f"no such method: {method!r}")
            return
        self._note(name, message.get("params", {}))

    def _judge_answer(self, message: dict[str, Any]) -> None:
        method = self._asked.get(message["id"], "")
        self.sent.append(f"= {method}")
        if "error" in message:
            self._note("Error", message["error"])
            return
        name = definition_of(method, "Response", unstable=self.unstable)
        self._note(name or "ExtResponse", message["result"])

    def _note(self, name: str, value: Any) -> None:
        fault = judge(name, value, unstable=self.unstable)
        if fault:
            self.faults.append(fault)
