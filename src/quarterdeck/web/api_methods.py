"""The JSON API over the fleet's methods: who may call which, how, and the document about it.

Every method of the fleet that is one request and one answer can be called, with the parameters and
the result that it is declared with (``fleet.api``); this module adds only the role that it needs.
What says who acts is not taken from the caller: it is the device that signed in.
"""

import asyncio
from functools import cache
from inspect import Parameter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, defstruct

from quarterdeck import __version__
from quarterdeck.config.places import Places
from quarterdeck.fleet.host.methods import fleet_request
from quarterdeck.fleet.method import FLEET_METHODS
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.values import Value

from .devices import DeviceRole, WebDevice, may_act
from .errors import RoleError

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient

__all__ = [
    "API_VERSION",
    "OFFERED_METHODS",
    "call_method",
    "find_role",
    "find_spawn_choices",
    "make_document",
    "parameters_of",
]

API_VERSION = 1
"""In every path. It changes when a caller of before would be misled."""

_VIEWER = frozenset(
    (
        *("agents", "agent", "inbox", "inbox_groups", "grants", "status", "search", "wait"),
        "standalone_sessions",
        *("usage", "meter", "conflicts", "turns", "turn_changes", "changes", "patch", "patch_text"),
        *("comments", "worktrees", "trash", "preview_landing", "landings", "wait_landing"),
        *("budgets", "terminals", "back_test", "suggest_rules"),
    )
)
_APPROVER = frozenset(("answer", "answer_group", "reply"))
_WITHHELD = frozenset(("call_screen",))
"""For agents that talk with a workbench; a browser is none of them."""
_SERVER_SET = frozenset(("origin", "sender", "author"))
"""Parameters that say who acts; ``by`` does too, where it is a person by default."""

OFFERED_METHODS = tuple(name for name in FLEET_METHODS if name not in _WITHHELD)
"""In the order of their declaration."""


def find_role(method: str) -> DeviceRole:
    """The role that a method needs; one that is not named here needs the highest."""
    if method in _VIEWER:
        return "viewer"
    return "approver" if method in _APPROVER else "operator"


def _says_who(parameter: Parameter) -> bool:
    return parameter.name in _SERVER_SET or _is_decider(parameter)


def _is_decider(parameter: Parameter | None) -> bool:
    return parameter is not None and parameter.name == "by" and parameter.default == "person"


@cache
def parameters_of(method: str) -> type[Struct]:
    """The body of a call: the method's parameters without those that say who acts."""
    fields = [
        (one.name, one.annotation)
        if one.default is Parameter.empty
        else (one.name, one.annotation, one.default)
        for one in fleet_request(method).signature.parameters.values()
        if not _says_who(one)
    ]
    return defstruct(f"{method}_body", fields, bases=(Value,), frozen=True, kw_only=True)


async def call_method(client: "HostClient", device: WebDevice, method: str, body: bytes) -> bytes:
    """Call a method for a device; returns the result as JSON.

    Raises:
        RoleError: the device may not.
        msgspec.DecodeError: the body is no JSON, or has other parameters.
        QuarterdeckError, ValueError: what the fleet raises.
    """
    needed = find_role(method)
    if not may_act(device.role, needed):
        raise RoleError(device.role, needed)
    given = decode_json(body or b"{}", parameters_of(method))
    named = {name: getattr(given, name) for name in given.__struct_fields__}
    if _is_decider(fleet_request(method).signature.parameters.get("by")):
        named["by"] = device.decider
    return msgspec.json.encode(await client.call(method, **named))


async def find_spawn_choices(places: Places) -> list[dict[str, Any]]:
    """The agents that can be started here, with what each can be given; ours first."""
    from quarterdeck.drivers.catalogue import load_catalogue
    from quarterdeck.drivers.probe import probe

    catalogue = await asyncio.to_thread(load_catalogue, places)
    states = await probe(catalogue.agents.values(), places=places)
    found = [
        {
            "name": state.agent.name,
            "title": state.agent.title,
            "version": state.version or "",
            "login": state.login,
            "agent_modes": sorted(
                {mode for one in state.agent.transports.values() for mode in one.agent_modes}
            ),
        }
        for state in states
        if state.usable
    ]
    return sorted(found, key=lambda one: (one["name"] != "native", one["name"]))


@cache
def make_document() -> bytes:
    """The OpenAPI document: every path with its role, its body and its result."""
    bodies = [parameters_of(method) for method in OFFERED_METHODS]
    results = [fleet_request(method).result for method in OFFERED_METHODS]
    schemas, components = msgspec.json.schema_components(
        [*bodies, *results], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {}
    for index, method in enumerate(OFFERED_METHODS):
        paths[f"/api/v{API_VERSION}/fleet/{method}"] = {
            "post": _describe(method, schemas[index], schemas[index + len(bodies)])
        }
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Quarterdeck", "version": __version__},
        "paths": {**_OTHER_PATHS, **paths},
        "components": {
            "schemas": {**components, "Error": _ERROR},
            "securitySchemes": {
                "device": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "quarterdeck"},
            },
        },
        "security": [{"device": []}, {"cookie": []}],
    }
    return msgspec.json.encode(document)


def _describe(method: str, body: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    text = FLEET_METHODS[method].declaration.__doc__ or ""
    summary, _, rest = text.partition("\n")
    return {
        "operationId": method,
        "summary": summary.strip(),
        "description": "\n".join(line.strip() for line in rest.strip().splitlines()),
        "x-role": find_role(method),
        "requestBody": {"content": {"application/json": {"schema": body}}},
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {"schema": result}}},
            "default": _FAILED,
        },
    }


_ERROR = {
    "type": "object",
    "required": ["error", "message"],
    "properties": {"error": {"type": "string"}, "message": {"type": "string"}},
}
_FAILED = {
    "description": "Why not",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}


def _plain(summary: str, role: str | None, *, body: dict[str, str] | None = None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": summary,
        "responses": {"200": {"description": "Done"}, "default": _FAILED},
    }
    if role is None:
        described["security"] = []
    else:
        described["x-role"] = role
    if body is not None:
        properties = {name: {"type": kind} for name, kind in body.items()}
        schema = {"type": "object", "required": list(body), "properties": properties}
        described["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return described


_API = f"/api/v{API_VERSION}"
_OTHER_PATHS: dict[str, Any] = {
    f"{_API}/pair": {
        "post": _plain("Use a pairing code", None, body={"code": "string", "name": "string"})
    },
    f"{_API}/session": {"get": _plain("This device", "viewer")},
    f"{_API}/sign-out": {"post": _plain("Revoke this device", "viewer")},
    f"{_API}/devices": {"get": _plain("The paired devices", "viewer")},
    f"{_API}/devices/revoke": {
        "post": _plain("Revoke a device", "operator", body={"device": "string"})
    },
    f"{_API}/devices/pair": {
        "post": _plain("Make a pairing code", "operator", body={"role": "string"})
    },
    f"{_API}/push": {
        "get": _plain("The key for notifications by Web Push", "viewer"),
        "post": _plain(
            "Notify this device", "viewer", body={"endpoint": "string", "keys": "object"}
        ),
    },
    f"{_API}/push/remove": {"post": _plain("Notify this device no more", "viewer")},
    f"{_API}/agents": {"get": _plain("The agents that can be started", "viewer")},
    f"{_API}/records": {
        "get": {
            **_plain("Records of the log, in order", "viewer"),
            "parameters": [
                {"name": name, "in": "query", "schema": {"type": kind}}
                for name, kind in (
                    ("agent", "string"),
                    ("after", "integer"),
                    ("before", "integer"),
                    ("limit", "integer"),
                )
            ],
        }
    },
    f"{_API}/records/{{seq}}": {
        "get": {
            **_plain("One record, whole", "viewer"),
            "parameters": [
                {"name": "seq", "in": "path", "required": True, "schema": {"type": "integer"}}
            ],
        }
    },
}
