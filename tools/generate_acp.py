"""Write ``src/quarterdeck/wire/acp/schema.py`` from the official JSON schema of ACP v1.

    .venv/bin/python tools/generate_acp.py            # write
    .venv/bin/python tools/generate_acp.py --check    # say whether it is up to date

The schema is the one in the npm package that ``tools/package.json`` pins; ``make`` installs it
into ``build/node``. Types that exist by hand in ``quarterdeck.wire`` are imported and compared
with the schema: a difference stops the generator.
"""

import json
import re
import sys
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from acp_definitions import (
    BY_HAND,
    ENUM_DEFAULTS,
    NULL_CLEARS,
    NULLABLE,
    RENAMED,
    SCALARS,
    TAGS,
    UNSTABLE_FIELDS,
    UNSTABLE_METHODS,
    UPDATES,
    Parts,
    Property,
    Rule,
    Schema,
    SchemaDrift,
    Variant,
    camel,
    is_empty,
    is_enum,
    is_scalar,
    sentence,
    snake,
    spell,
    target_of,
    union,
    variants_of,
)
from quarterdeck.wire import content, permissions, settings, tool_calls, usage

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "build/node/node_modules/@agentclientprotocol/sdk"
HOMES = (content, permissions, settings, tool_calls, usage)
"""Where the types by hand are."""
TARGET = ROOT / "src/quarterdeck/wire/acp/schema.py"


@dataclass
class Generator:
    """One run: the definitions, and what was found in them so far."""

    stable: dict[str, Schema]
    defs: dict[str, Schema]
    bodies: dict[str, str] = field(default_factory=dict[str, str])
    leniency: dict[str, dict[str, Rule]] = field(default_factory=dict[str, dict[str, Rule]])

    # --- types ---------------------------------------------------------------------------

    def annotation(self, schema: Schema) -> Parts:
        if "$ref" in schema:
            return self.named(target_of(schema))
        if "allOf" in schema:
            (only,) = schema["allOf"]
            return self.annotation(only)
        if "anyOf" in schema:
            return union(*(self.annotation(option) for option in schema["anyOf"]))
        if "type" not in schema:
            return ("Any",)
        kinds: str | list[str] = schema["type"]
        listed = [kinds] if isinstance(kinds, str) else kinds
        return union(tuple(self.plain(kind, schema) for kind in listed))

    def plain(self, kind: str, schema: Schema) -> str:
        if kind == "array":
            return f"tuple[{spell(self.annotation(schema['items']))}, ...]"
        if kind != "object":
            return SCALARS[kind]
        extra = schema.get("additionalProperties")
        if not extra or "properties" in schema:
            raise SchemaDrift(f"an inline object cannot be named: {schema!r}")
        return f"dict[str, {'Any' if extra is True else spell(self.annotation(extra))}]"

    def named(self, name: str) -> Parts:
        """Return the annotation for a definition, and make its type if it needs one."""
        schema = self.defs[name]
        if name == UPDATES:
            return (UPDATES,)
        if name in BY_HAND:
            return (BY_HAND[name],)
        if is_enum(schema):
            return ("str",)
        if is_scalar(schema):
            return self.annotation(schema)
        if is_empty(schema):
            return ("Empty",)
        self.struct(name)
        return (RENAMED.get(name, name),)

    # --- shapes ---------------------------------------------------------------------------

    def properties(self, *names: str) -> list[Property]:
        """Return the properties of a definition, or of several merged into one."""
        variants = self.variants(self.defs, names)
        stable = {key for variant in self.variants(self.stable, names) for key in variant}
        keys = dict.fromkeys(key for variant in variants for key in variant if key != "_meta")
        return [
            self.merge(key, [variant.get(key) for variant in variants])
            for key in keys
            if key in stable
            or names[0] not in self.stable
            or any((name, key) in UNSTABLE_FIELDS for name in names)
        ]

    def variants(self, defs: dict[str, Schema], names: tuple[str, ...]) -> list[Variant]:
        return [v for name in names if name in defs for v in variants_of(defs, defs[name])]

    def merge(self, key: str, found: list[tuple[Schema, bool] | None]) -> Property:
        """Make one property of a key's appearances in all variants; None where it is absent."""
        present = [each for each in found if each is not None]
        schema: Schema = {}
        for each, _ in present:
            schema = each | schema
        parts = union(*(self.annotation(each) for each, _ in present))
        needed = any(required for _, required in present)
        required = len(present) == len(found) and all(required for _, required in present)
        return Property(key, schema, parts, required, needed)

    def rule(self, prop: Property) -> Rule | None:
        schema = prop.schema
        on_error, skip_items, on_null = (
            bool(schema.get(f"x-deserialize-{flag}"))
            for flag in ("default-on-error", "skip-invalid-items", "default-on-null")
        )
        if not (on_error or skip_items or on_null):
            return None
        empty = {"array": "list", "object": "dict"}.get(str(schema.get("type")))
        if prop.required and on_error and empty is None:
            raise SchemaDrift(f"{prop.name!r} is required and has no default to fall back to")
        return Rule(on_error, skip_items, on_null, empty)

    def optional(self, owner: str, prop: Property) -> tuple[str, str]:
        """Return the annotation and the default of a field that may be absent."""
        nullable = NULLABLE in prop.parts or prop.parts == ("Any",)
        annotation = spell(prop.parts)
        if (owner, prop.name) in NULL_CLEARS or (nullable and prop.needed):
            return f"{annotation} | UnsetType", "UNSET"
        if nullable:
            return annotation, NULLABLE
        if prop.needed:
            return f"{annotation} | None", NULLABLE
        return annotation, self.default(annotation, prop.schema)

    def default(self, annotation: str, schema: Schema) -> str:
        if annotation.startswith("tuple["):
            return "()"
        if annotation.startswith("dict["):
            return (
                "{}"  # msgspec copies it, and leaves it out of a message; of a factory it does not
            )
        if annotation in ENUM_DEFAULTS:
            return ENUM_DEFAULTS[annotation]
        if annotation in SCALARS.values():
            return repr(schema["default"]).replace("'", '"')
        return f"{annotation}()"

    # --- code -----------------------------------------------------------------------------

    def fields(self, name: str, props: list[Property]) -> list[str]:
        lines: list[str] = []
        for prop in sorted(props, key=lambda prop: not prop.required):
            attribute = snake(prop.name)
            if camel(attribute) != prop.name:
                raise SchemaDrift(f"{prop.name!r} does not survive as {attribute!r}")
            if prop.required:
                lines.append(f"    {attribute}: {spell(prop.parts)}")
            else:
                lines.append(f"    {attribute}: {' = '.join(self.optional(name, prop))}")
            lines += self.note(name, prop)
        return lines

    def note(self, name: str, prop: Property) -> list[str]:
        words: list[str] = []
        if (name, prop.name) in UNSTABLE_FIELDS:
            words.append("Unstable.")
        enum = self.defs.get(target_of(prop.schema), {})
        if "str" in prop.parts and is_enum(enum):
            options: list[Schema] = enum.get("oneOf") or enum.get("anyOf") or []
            values = ", ".join(f"``{o['const']}``" for o in options if "const" in o)
            words.append(f"Known: {values}.")
        return [f'    """{" ".join(words)}"""'] if words else []

    def struct(self, name: str) -> None:
        if name in self.bodies:
            return
        self.bodies[name] = ""  # a type that contains itself does not begin anew
        props = self.properties(name)
        own = RENAMED.get(name, name)
        lines = [
            f"class {own}(AcpValue, frozen=True, kw_only=True):",
            f'    """{sentence(self.defs[name]) or own}."""',
            "",
            *self.fields(name, props),
        ]
        lines += self.check(name)
        self.bodies.pop(name)  # to the end: after everything that it needs
        self.bodies[name] = "\n".join(lines)
        self.remember(own, props)

    def check(self, name: str) -> list[str]:
        tag = TAGS.get(name)
        if tag is None:
            return []
        needs: dict[str | None, set[str]] = {}
        for variant in variants_of(self.defs, self.defs[name]):
            kind = variant[tag][0].get("const", "other") if tag in variant else None
            required = {snake(key) for key, (_, needed) in variant.items() if needed}
            needs[kind] = needs.get(kind, required) & required
        always = set[str].intersection(*needs.values())
        rows = [
            f"                {json.dumps(kind).replace('null', 'None')}: "
            f"({''.join(f'{json.dumps(n)}, ' for n in sorted(needs[kind] - always - {tag}))}),"
            for kind in needs
            if kind != "other"
        ]
        return [
            "",
            "    def __post_init__(self) -> None:",
            "        require(",
            "            self,",
            f"            self.{tag},",
            "            {",
            *rows,
            "            },",
            "        )",
        ]

    def remember(self, own: str, props: list[Property]) -> None:
        rules = {prop.name: rule for prop in props if (rule := self.rule(prop))}
        if rules:
            self.leniency[own] = rules

    def updates(self) -> list[tuple[str, str, str]]:
        """Return the variants of an update: tag, class name, definition."""
        found: list[tuple[str, str, str]] = []
        for option in self.stable[UPDATES]["oneOf"]:
            tag = option["properties"]["sessionUpdate"]["const"]
            target = option["allOf"][0]["$ref"].rpartition("/")[2]
            found.append((tag, "".join(word.capitalize() for word in tag.split("_")), target))
        return found

    def update_union(self) -> str:
        """Make a class for each variant; one whose shape has other uses becomes a subclass."""
        names: list[str] = []
        for tag, own, target in self.updates():
            names.append(own)
            base = RENAMED.get(target, target)
            options = f'frozen=True, kw_only=True, tag_field="sessionUpdate", tag="{tag}"'
            self.struct(target)
            if base == own:
                body = self.bodies.pop(target)
                self.bodies[target] = body.replace(
                    f"class {own}(AcpValue, frozen=True, kw_only=True):",
                    f"class {own}(\n    AcpValue, {options}\n):",
                )
            else:
                self.bodies[f"{target}:{own}"] = (
                    f"class {own}(\n    {base}, {options}\n):\n"
                    f'    """``{tag}``: {sentence(self.defs[target]) or base}."""'
                )
        joined = "\n    | ".join([*names, "UnknownUpdate"])
        return f"{UPDATES}: TypeAlias = (\n    {joined}\n)"

    # --- methods --------------------------------------------------------------------------

    def messages(self) -> tuple[list[str], dict[str, list[str]]]:
        """Return the constants of all methods, and their names by table."""
        constants: list[str] = []
        tables: dict[str, list[str]] = {}
        found = {(d["x-method"], d["x-side"], k) for k, d in self.defs.items() if "x-method" in d}
        for method, side, name in sorted(found):
            stable = name in self.stable
            if name.endswith("Response") or not (stable or method in UNSTABLE_METHODS):
                continue
            constant = re.sub(r"\W+", "_", method).strip("_").upper()
            params = spell(self.named(name))
            kind, generic, result = "Notification", params, ""
            if name.endswith("Request"):
                answer = spell(self.named(name.removesuffix("Request") + "Response"))
                kind, generic, result = "Method", f"{params}, {answer}", f"    result={answer},\n"
            constants.append(
                f"{constant}: {kind}[{generic}] = {kind}(\n"
                f'    name="{method}",\n    params={params},\n{result}    side="{side}",\n'
                + ("" if stable else "    stable=False,\n")
                + ")"
            )
            family = "METHODS" if kind == "Method" else "NOTIFICATIONS"
            for each in ("agent", "client") if side == "protocol" else (side,):
                tables.setdefault(f"{each.upper()}_{family}", []).append(constant)
        return constants, tables

    # --- types by hand ---------------------------------------------------------------------

    def verify(self) -> None:
        """Compare every type by hand with the schema.

        Raises:
            SchemaDrift: A field's name, type or requiredness differs.
        """
        known: dict[str, Any] = {
            name: getattr(home, name) for home in HOMES for name in home.__all__
        }
        groups: dict[str, list[str]] = {}
        for name, own in BY_HAND.items():
            groups.setdefault(own, []).append(name)
        for own, names in groups.items():
            by_hand = known[own]
            if isinstance(by_hand, type):
                self.compare(own, by_hand, names, known)
            elif is_enum(self.defs[names[0]]):
                values = [o["const"] for o in self.defs[names[0]]["oneOf"]]
                expect(own, "values", set(values), set(typing.get_args(by_hand)))
            else:
                self.compare_tags(own, by_hand, self.defs[names[0]])

    def compare(self, own: str, by_hand: Any, names: list[str], known: dict[str, Any]) -> None:
        hints = typing.get_type_hints(by_hand)
        fields = {f.encode_name: f for f in msgspec.structs.fields(by_hand)}
        props = self.properties(*names)
        expect(own, "fields", {p.name for p in props}, set(fields) - {"_meta"})
        for prop in props:
            mine = fields[prop.name]
            parts = union(prop.parts, () if prop.required else (NULLABLE,))
            expect(f"{own}.{prop.name}", "required", prop.required, mine.required)
            expect(f"{own}.{prop.name}", "type", eval(spell(parts), known), hints[mine.name])
        self.remember(own, props)

    def compare_tags(self, own: str, by_hand: Any, schema: Schema) -> None:
        field_name = schema["discriminator"]["propertyName"]
        tags = {option["properties"][field_name]["const"] for option in schema["oneOf"]}
        found = {member.__struct_config__.tag for member in typing.get_args(by_hand)}
        expect(own, "tags", tags, found)


def expect(what: str, aspect: str, expected: object, found: object) -> None:
    if expected != found:
        raise SchemaDrift(f"{what}: the schema's {aspect}: {expected!r}; ours: {found!r}")


HEADER = '''\
"""Types and methods of the Agent Client Protocol, version 1.

Generated from the JSON schema of {package} {version} by tools/generate_acp.py.
Do not edit; regenerate with: .venv/bin/python tools/generate_acp.py
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

{imports}
from ..values import AcpValue
from .methods import Method, Notification
from .leniency import Leniency, require

__all__ = [
{names}
]


class Empty(AcpValue, frozen=True, kw_only=True):
    """Nothing but room for ``_meta``: a capability that is there, parameters that are not."""


class UnknownUpdate(
    AcpValue, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="_unknown"
):
    """An update that is no other one of ``SessionUpdate``: a new kind, or one with a mistake."""

    kind: str
    """Its ``sessionUpdate``."""
    raw: Raw
    """The whole update as it came."""


'''


def imports(body: str) -> str:
    """Return the import lines for what a module's body names."""
    code = "\n".join(line for line in body.splitlines() if '"""' not in line)
    used = set(re.findall(r"\w+", code))
    lines: list[str] = []
    for home in sorted(HOMES, key=lambda home: home.__name__):
        mine = sorted(used.intersection(home.__all__))
        if mine:
            joined = "".join(f"    {name},\n" for name in mine)
            lines.append(f"from ..{home.__name__.rpartition('.')[2]} import (\n{joined})")
    return "\n".join(lines)


def assemble(parts: list[str], public: list[str]) -> str:
    body = "\n\n\n".join(parts) + "\n"
    package = json.loads((PACKAGE / "package.json").read_text())
    header = HEADER.format(
        package=package["name"],
        version=package["version"],
        imports=imports(body),
        names="\n".join(f'    "{name}",' for name in sorted(public)),
    )
    return header + body


def lenient(run: Generator) -> str:
    rows = ['        AcpValue: {\n            "_meta": Leniency(on_error=True),\n        },']
    for own, rules in run.leniency.items():
        inner = "".join(f'            "{name}": {rule},\n' for name, rule in rules.items())
        rows.append(f"        {own}: {{\n{inner}        }},")
    return (
        "def leniency() -> dict[type[Struct], dict[str, Leniency]]:\n"
        '    """Return the schema\'s rules for wrong values, by type and name on the wire."""\n'
        "    return {\n" + "\n".join(rows) + "\n    }"
    )


def render() -> str:
    """Return the module's text.

    Raises:
        SchemaDrift: The schema and our types by hand disagree.
    """
    stable = json.loads((PACKAGE / "schema/v1/schema.json").read_text())["$defs"]
    unstable = json.loads((PACKAGE / "schema/v1/schema.unstable.json").read_text())["$defs"]
    run = Generator(stable, unstable)
    run.verify()
    updates = run.update_union()
    constants, tables = run.messages()
    names = [re.match(r"class (\w+)", body) for body in run.bodies.values()]
    listed = [
        f"{table}: dict[str, {kind}] = {{\n"
        + "".join(f"    {name}.name: {name},\n" for name in members)
        + "}"
        for table, members in sorted(tables.items())
        for kind in ["Method[Any, Any]" if table.endswith("_METHODS") else "Notification[Any]"]
    ]
    public = [
        *(name[1] for name in names if name),
        *(constant.partition(":")[0] for constant in constants),
        *tables,
        *("Empty", UPDATES, "UnknownUpdate", "leniency"),
    ]
    parts = [*run.bodies.values(), updates, "\n".join(constants), "\n".join(listed), lenient(run)]
    return assemble(parts, public)


def main() -> int:
    text = render()
    if "--check" not in sys.argv:
        TARGET.write_text(text)
        print(f"wrote {TARGET.relative_to(ROOT)}")
        return 0
    fresh = TARGET.is_file() and TARGET.read_text() == text
    print("up to date" if fresh else "stale: run .venv/bin/python tools/generate_acp.py")
    return 0 if fresh else 1


if __name__ == "__main__":
    sys.exit(main())
