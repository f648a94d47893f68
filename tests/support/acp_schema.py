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
def closed_definitions(*, unstable: bool) -> dict[str, Any]:
    """The definitions, but no object of a message has fields that they do not name."""
    return {name: _closed(schema) for name, schema in definitions(unstable=unstable).items()}


def _closed(schema: Any, *, is_value: bool = False) -> Any:
    """Close what stands for a whole value: a property, an item. Parts of one stay open."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {
        key: {name: _closed(one, is_value=True) for name, one in value.items()}
        if key == "properties"
        else _closed(value, is_value=key in ("items", "additionalProperties"))
        for key, value in schema.items()
    }
    if is_value and {"$ref", "allOf", "anyOf", "oneOf", "properties"} & set(inner):
        inner["unevaluatedProperties"] = False
    return inner


@cache
def validator(name: str, *, unstable: bool, closed: bool) -> Any:
    known = closed_definitions if closed else definitions
    schema = {"$ref": f"#/$defs/{name}", "$defs": known(unstable=unstable)}
    if closed:
        schema["unevaluatedProperties"] = False
    return jsonschema.Draft202012Validator(schema)


def judge(name: str, value: Any, *, unstable: bool = False, closed: bool = False) -> str | None:
    """Return what is wrong with a value of a definition, or None.

    ``closed``: also a field that the definition does not name is wrong, but in ``_meta``.
    """
    judges = validator(name, unstable=unstable, closed=closed)
    error = jsonschema.exceptions.best_match(judges.iter_errors(value))
    if error is None:
        return None
    return f"{name}: {error.json_path}: {error.message[:300]}"


class FrameJudge:
    """An observer of a peer that keeps its frames and then judges those which we sent.

    ``closed``: they may have no fields that the schema does not name.
    """

    def __init__(self, *, unstable: bool = False, closed: bool = False) -> None:
        self.unstable = unstable
        self.closed = closed
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
            # Who asks by a method that is not stable knows it.
            is_known = definition_of(method, "Request", unstable=False) is not None
            unstable = self.unstable or (ending == "Response" and not is_known)
            name = definition_of(method, ending, unstable=unstable)
            if ending == "Error":
                name = "Error"
            how = {"unstable": unstable, "closed": self.closed and ending != "Error"}
            fault = judge(name, value, **how) if name else "no such method"
            if fault:
                found.append(f"{method} {ending}: {fault}")
        return found


def is_request(message: dict[str, Any]) -> bool:
    return "method" in message and "id" in message
