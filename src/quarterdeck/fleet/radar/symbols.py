"""Top-level symbols of source files, and which of them a change touches.

Python, JavaScript, TypeScript, Go, Rust and Java are read with tree-sitter; a grammar is loaded
when the first file of its language is read. A language whose grammar is not installed has no
symbols, and ``missing_grammars`` names it. Everything here blocks.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Language, Node

__all__ = ["LARGEST_SOURCE", "find_language", "missing_grammars", "symbols_of", "touched_symbols"]

LARGEST_SOURCE = 1_000_000
"""Bytes; a larger file is generated, and its symbols mean little to people."""


class _Grammar(Struct, frozen=True):
    module: str
    function: str = "language"


_GRAMMARS = {
    "python": _Grammar("tree_sitter_python"),
    "javascript": _Grammar("tree_sitter_javascript"),
    "typescript": _Grammar("tree_sitter_typescript", "language_typescript"),
    "tsx": _Grammar("tree_sitter_typescript", "language_tsx"),
    "go": _Grammar("tree_sitter_go"),
    "rust": _Grammar("tree_sitter_rust"),
    "java": _Grammar("tree_sitter_java"),
}
_SUFFIXES = {
    **dict.fromkeys((b"py", b"pyi"), "python"),
    **dict.fromkeys((b"js", b"mjs", b"cjs", b"jsx"), "javascript"),
    **dict.fromkeys((b"ts", b"mts", b"cts"), "typescript"),
    b"tsx": "tsx",
    b"go": "go",
    b"rs": "rust",
    b"java": "java",
}
_NAMED = frozenset(
    (
        # Python
        *("function_definition", "class_definition"),
        # JavaScript and TypeScript
        *("function_declaration", "generator_function_declaration", "class_declaration"),
        *("abstract_class_declaration", "interface_declaration", "type_alias_declaration"),
        *("enum_declaration", "internal_module", "module", "method_definition"),
        "function_signature",
        # Go
        *("type_spec", "type_alias", "const_spec", "var_spec"),
        # Rust
        *("function_item", "struct_item", "enum_item", "union_item", "trait_item", "mod_item"),
        *("const_item", "static_item", "type_item", "macro_definition"),
        "function_signature_item",
        # Java
        *("record_declaration", "annotation_type_declaration", "method_declaration"),
        "constructor_declaration",
    )
)
"""Nodes that are a symbol; the name is in the field ``name``."""
_WRAPPERS = frozenset(
    (
        *("export_statement", "ambient_declaration", "type_declaration", "const_declaration"),
        *("var_declaration", "var_spec_list", "expression_statement"),
        *("lexical_declaration", "variable_declaration", "enum_body_declarations"),
    )
)
"""Nodes whose children are symbols."""
_BODIES = frozenset(
    (
        *("block", "class_body", "interface_body", "enum_body", "declaration_list"),
        *("object_type", "statement_block"),
    )
)
"""Nodes that hold the members of a symbol."""
_HOLDERS = frozenset(
    (
        *("class_definition", "class_declaration", "abstract_class_declaration", "impl_item"),
        *("interface_declaration", "enum_declaration", "record_declaration", "trait_item"),
        *("mod_item", "internal_module", "module"),
    )
)
"""Symbols whose members are distinguished."""


def find_language(path: bytes) -> str | None:
    """The language of a file by its suffix; None: one that has no symbols here."""
    return _SUFFIXES.get(path.rpartition(b".")[2].lower())


@cache
def _load_language(name: str) -> "Language | None":
    grammar = _GRAMMARS[name]
    try:
        from tree_sitter import Language

        make: Callable[[], object] = getattr(import_module(grammar.module), grammar.function)
        return Language(make())
    except (ImportError, AttributeError, ValueError):
        return None  # not installed, or of a version that our tree-sitter cannot read


def missing_grammars() -> list[str]:
    """The packages whose grammars were needed by now and cannot be loaded."""
    if not _load_language.cache_info().currsize:
        return []
    missing = {_GRAMMARS[name].module for name in _needed if _load_language(name) is None}
    return sorted(module.replace("_", "-") for module in missing)


_needed: set[str] = set()


def symbols_of(language: str, source: bytes) -> dict[str, bytes]:
    """The top-level symbols of a file and their text; members as ``Class.method`` too.

    Empty where the grammar is missing. A file with syntax errors gives what can be read.
    """
    _needed.add(language)
    grammar = _load_language(language)
    if grammar is None or len(source) > LARGEST_SOURCE:
        return {}
    from tree_sitter import Parser

    found: dict[str, list[bytes]] = {}
    for name, text in _symbols(Parser(grammar).parse(source).root_node, ""):
        found.setdefault(name, []).append(text)
    return {name: b"\0".join(texts) for name, texts in found.items()}


def _symbols(parent: "Node", prefix: str) -> Iterator[tuple[str, bytes]]:
    for node in parent.named_children:
        yield from _symbols_in(node, node, prefix)


def _symbols_in(node: "Node", whole: "Node", prefix: str) -> Iterator[tuple[str, bytes]]:
    """Those of one statement; ``whole`` is it with what belongs to it, such as decorators."""
    if node.type == "decorated_definition":
        inner = node.child_by_field_name("definition")
        if inner is not None:
            yield from _symbols_in(inner, whole, prefix)
    elif node.type in _WRAPPERS:
        for child in node.named_children:
            single = node.named_child_count == 1 or node.type == "export_statement"
            yield from _symbols_in(child, whole if single else child, prefix)
    elif (name := _name(node)) is not None:
        yield prefix + name, _text(whole)
        if node.type in _HOLDERS and not prefix:
            for body in node.named_children:
                if body.type in _BODIES:
                    yield from _symbols(body, f"{name}.")


def _name(node: "Node") -> str | None:
    if node.type == "impl_item":
        return _word(node.child_by_field_name("type"))
    if node.type == "assignment":
        left = node.child_by_field_name("left")
        return _word(left) if left is not None and left.type == "identifier" else None
    if node.type == "variable_declarator" or node.type in _NAMED:
        name = _word(node.child_by_field_name("name"))
        receiver = _receiver(node) if node.type == "method_declaration" else None
        return f"{receiver}.{name}" if receiver and name else name
    return None


def _receiver(node: "Node") -> str | None:
    """The type that a method of Go belongs to."""
    found = node.child_by_field_name("receiver")
    while found is not None and found.type != "type_identifier":
        kinds = ("parameter_declaration", "pointer_type", "generic_type", "type_identifier")
        found = next((child for child in found.named_children if child.type in kinds), None)
    return _word(found)


def _word(node: "Node | None") -> str | None:
    if node is None:
        return None
    return " ".join(_text(node).decode("utf-8", "replace").split())[:100] or None


def _text(node: "Node") -> bytes:
    return node.text or b""


def touched_symbols(
    language: str,
    old: bytes | None,
    new: bytes | None,
    known: "dict[tuple[str, bytes], dict[str, bytes]] | None" = None,
) -> frozenset[str]:
    """The symbols that a change adds, removes or rewrites; None: there is no file.

    Of a class also the members, as ``Class.method``. ``known``: what was found in files before, by
    language and source; it grows.
    """
    known = {} if known is None else known
    for source in (old, new):
        if source is not None and (language, source) not in known:
            known[language, source] = symbols_of(language, source)
    before = known[language, old] if old is not None else {}
    after = known[language, new] if new is not None else {}
    return frozenset(_differences(before, after))


def _differences(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[str]:
    for name in before.keys() | after.keys():
        if before.get(name) != after.get(name):
            yield name
