"""The official JSON schema of ACP v1 as a judge of single frames."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

__all__ = ["FrameJudge", "definition_of", "definitions", "judge", "needs_schema"]

FOLDER = Path(__file__).parents[2] / "build/node/node_modules/@agentclientprotocol/sdk/schema/v1"
needs_schema = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the official schema is not installed; run: make build/node/.done"
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
    """An observer of a peer that keeps its frames and then judges those which we sent."""

    def __init__(self, *, unstable: bool = False) -> None:
        self.unstable = unstable
        self.frames: list[tuple[str, dict[str, Any]]] = []
        """Direction and message of each frame, in order."""

    def __call__(self, direction: str, frame: bytes) -> None:
        self.frames.append((direction, json.loads(frame)))

    def sent(self) -> list[tuple[str, str, Any]]:
        """Return method, ending of the definition, and content of every frame that we sent."""
        asked = {m["id"]: m["method"] for way, m in self.frames if way == "in" and is_request(m)}
        found: list[tuple[str, str, Any]] = []
        for way, message in self.frames:
            if way != "out":
                continue
            assert message["jsonrpc"] == "2.0"
            if is_request(message):
                found.append((message["method"], "Request", message.get("params", {})))
            elif "method" in message:
                found.append((message["method"], "Notification", message.get("params", {})))
            elif "error" in message:
                found.append((asked.get(message["id"], ""), "Error", message["error"]))
            else:
                found.append((asked[message["id"]], "Response", message["result"]))
        return found

    def faults(self) -> list[str]:
        """Return what the schema finds wrong in the frames that we sent; extensions are free."""
        found: list[str] = []
        for method, ending, value in self.sent():
            if method.startswith("_"):
                continue
            name = definition_of(method, ending, unstable=self.unstable)
            if ending == "Error":
                name = "Error"
            fault = judge(name, value, unstable=self.unstable) if name else "no such method"
            if fault:
                found.append(f"{method} {ending}: {fault}")
        return found


def is_request(message: dict[str, Any]) -> bool:
    return "method" in message and "id" in message
