"""What the generator of the ACP types decides, and what it asks of a single definition."""

import json
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]
Parts: TypeAlias = tuple[str, ...]
"""The members of an annotation: one, or those of a union."""
Variant: TypeAlias = dict[str, tuple[Schema, bool]]
"""One alternative of an object: property name to schema and requiredness."""

BY_HAND = {
    "Annotations": "Annotations",
    "AudioContent": "AudioContent",
    "AvailableCommand": "Command",
    "AvailableCommandInput": "CommandInput",
    "BlobResourceContents": "ResourceContents",
    "Content": "ContentItem",
    "ContentBlock": "ContentBlock",
    "Cost": "Cost",
    "Diff": "Diff",
    "EmbeddedResource": "EmbeddedResource",
    "EmbeddedResourceResource": "ResourceContents",
    "ImageContent": "ImageContent",
    "PermissionOption": "PermissionOption",
    "PlanEntry": "PlanEntry",
    "PlanEntryPriority": "PlanPriority",
    "PlanEntryStatus": "PlanStatus",
    "RequestPermissionOutcome": "PermissionOutcome",
    "ResourceLink": "ResourceLink",
    "Role": "Role",
    "SelectedPermissionOutcome": "Selected",
    "SessionConfigOption": "ConfigOption",
    "SessionConfigSelectGroup": "ConfigChoice",
    "SessionConfigSelectOption": "ConfigChoice",
    "SessionMode": "Mode",
    "Terminal": "TerminalItem",
    "TextContent": "TextContent",
    "TextResourceContents": "ResourceContents",
    "ToolCallContent": "ToolCallContent",
    "ToolCallLocation": "ToolCallLocation",
    "ToolCallStatus": "ToolCallStatus",
    "ToolKind": "ToolKind",
    "UnstructuredCommandInput": "CommandInput",
}
"""Definitions whose type exists by hand: the schema's name and ours."""

UNSTABLE_METHODS = {
    "session/archive",
    "session/fork",
    "session/set_title",
    "session/status",
    "session/unarchive",
}
UNSTABLE_FIELDS = {
    ("ClientCapabilities", "subagents"),
    ("ListSessionsRequest", "archived"),
    ("LoadSessionRequest", "systemPrompt"),
    ("NewSessionRequest", "systemPrompt"),
    ("PromptResponse", "usage"),
    ("ResumeSessionRequest", "systemPrompt"),
    ("SessionCapabilities", "archive"),
    ("SessionCapabilities", "fork"),
    ("SessionCapabilities", "status"),
    ("SessionCapabilities", "systemPrompt"),
    ("SessionCapabilities", "title"),
    ("SessionInfo", "archived"),
}
"""Additions to stable types that we read and may write; other unstable ones are left out."""
UNSTABLE_VARIANTS = {"McpServerAcp"}
"""Variants of merged types that we do not take."""
NULL_CLEARS = {
    ("CompactionUpdate", "error"),
    ("CompactionUpdate", "summary"),
    ("SessionInfoUpdate", "title"),
    ("SessionInfoUpdate", "updatedAt"),
}
"""Fields where null means something else than nothing."""
ENUM_DEFAULTS = {"ToolKind": '"other"', "ToolCallStatus": '"pending"'}
"""The defaults of optional enums, which the schema does not spell out."""
RENAMED = {"ToolCallUpdate": "ToolCallDetails", "ElicitationPropertySchema": "ElicitationProperty"}
"""Generated types that get another name, because an update's variant has the schema's own."""
TAGS = {"CreateElicitationRequest": "mode", "McpServer": "type"}
"""Merged types whose kind decides which fields must be there."""
UPDATES = "SessionUpdate"
NULLABLE = "None"
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class SchemaDrift(Exception):
    """The schema says something that this generator or a type by hand does not expect."""


@dataclass(frozen=True)
class Property:
    """A property of an object, or of all variants of one together."""

    name: str
    schema: Schema
    parts: Parts
    required: bool
    needed: bool
    """Required in at least one variant."""


@dataclass(frozen=True)
class Rule:
    on_error: bool
    skip_items: bool
    on_null: bool
    empty: str | None

    def __str__(self) -> str:
        names = ("on_error", "skip_items", "on_null")
        parts = [f"{name}=True" for name in names if getattr(self, name)]
        if self.empty is not None:
            parts.append(f'empty="{self.empty}"')
        return f"Leniency({', '.join(parts)})"


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def camel(attribute: str) -> str:
    head, *rest = attribute.split("_")
    return head + "".join(word.capitalize() for word in rest)


def union(*members: Parts) -> Parts:
    """Join annotations: each member once, None last."""
    single = dict.fromkeys(part for parts in members for part in parts)
    return tuple(sorted(single, key=lambda part: part == NULLABLE))


def spell(parts: Parts) -> str:
    return " | ".join(parts)


def sentence(schema: Schema) -> str:
    """Return the first sentence of a description that fits a line."""
    text = str(schema.get("description", ""))
    paragraphs = [" ".join(p.split()) for p in text.split("\n\n")]
    paragraphs = [p for p in paragraphs if p and "UNSTABLE" not in p and "not part of" not in p]
    first = re.split(r"(?<=[.!])\s", paragraphs[0])[0] if paragraphs else ""
    first = first.replace("\\", "").replace('"', "'").rstrip(".")
    return first if 0 < len(first) <= 84 else ""


def is_enum(schema: Schema) -> bool:
    options: list[Schema] = schema.get("oneOf") or schema.get("anyOf") or []
    return any("const" in option for option in options) and all(
        option.get("type") == "string" for option in options
    )


def is_scalar(schema: Schema) -> bool:
    if "anyOf" in schema:
        return all(is_scalar(option) for option in schema["anyOf"])
    return not set(schema) & {"$ref", "allOf"} and schema.get("type") != "object"


def is_empty(schema: Schema) -> bool:
    return (
        schema.get("type") == "object"
        and set(schema.get("properties", {})) <= {"_meta"}
        and not set(schema) & {"anyOf", "oneOf", "allOf", "additionalProperties"}
    )


def target_of(schema: Schema) -> str:
    """Return the first definition that a schema refers to, or an empty string."""
    found = re.search(r'"#/\$defs/(\w+)"', json.dumps(schema))
    return found[1] if found else ""


def variants_of(defs: dict[str, Schema], schema: Schema) -> list[Variant]:
    """Return every alternative of an object, in the schema's order."""
    if "$ref" in schema:
        return variants_of(defs, defs[target_of(schema)])
    required = set(schema.get("required", ()))
    own: Variant = {
        name: (prop, name in required) for name, prop in schema.get("properties", {}).items()
    }
    found = [own]
    for part in schema.get("allOf", ()):
        found = [base | more for base in found for more in variants_of(defs, part)]
    options: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or []
    branches = [
        variant
        for option in options
        if target_of(option) not in UNSTABLE_VARIANTS
        for variant in variants_of(defs, option)
    ]
    return [base | branch for base in found for branch in branches] if options else found
