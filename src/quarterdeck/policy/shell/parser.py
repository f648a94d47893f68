"""From the text of a command line to the commands in it, with tree-sitter-bash.

The parser is tolerant: it makes a tree of anything. So nothing is trusted that is not known: a
node of an unknown kind, an error, or text that shells read differently is a doubt, and a line with
a doubt is never allowed by a narrow rule.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from .collector import LineCollector, split_roughly
from .command_line import FED_FILE, CommandLine, Redirect, ShellWord, read_word, unknown_word
from .syntax_nodes import LEAVES, TOKENS, TRANSPARENT, holds
from .wrappers import is_harmless_assignment, is_harmless_name

if TYPE_CHECKING:
    from tree_sitter import Language, Node

__all__ = ["MAX_LENGTH", "SyntaxReader", "read_line"]

_MAX_DEPTH = 60

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SAFE_EXPANSION = re.compile(
    r"\$\{#?[A-Za-z_][A-Za-z0-9_]*\}"
    r"|\$\{[A-Za-z_][A-Za-z0-9_]*(?::?[-+]|##?|%%?)[^$`{}@!\[\\]*\}"
)
_HEREDOC_MARK = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|'[A-Za-z_][A-Za-z0-9_]*'")
_CALCULATING_TEST = re.compile(r"\s-(?:eq|ne|lt|le|gt|ge)\s")
_REDIRECTIONS = frozenset(("<", ">", ">>", ">|", "&>", "&>>", ">&", "<&"))

_LINE_END = re.compile(rb"(?<!\\)\n")

_ODD = "the command has a construct that cannot be judged"
_LATER = "which may change what later parts do"


class SyntaxReader(LineCollector):
    """One walk over a tree; ``read`` reads text that a part of the line hands to a shell."""

    def __init__(self, source: bytes, read: Callable[[str], CommandLine]) -> None:
        super().__init__(read)
        self.source = source
        self._split: set[tuple[int, int]] = set()
        """The spans of text whose words are in ``tokens``; a span can be odd at every sign."""

    def visit(self, node: "Node", depth: int) -> None:
        """Read a node and all below it."""
        if depth > _MAX_DEPTH:
            self.unread = True
            self.doubts.append("the command is nested too deeply")
            self.tokens.extend(split_roughly(self._text(node)))
            return
        kind = node.type
        if not node.is_named:
            self._token(node, kind)
        elif kind in LEAVES:
            self._leaf(kind, self._text(node))
        elif (handler := _HANDLERS.get(kind)) is not None:
            handler(self, node, depth)
        else:
            if kind not in TRANSPARENT:
                self.doubts.append(_ODD)
            self._children(node, depth)

    def _children(self, node: "Node", depth: int) -> None:
        for child in node.children:
            self.visit(child, depth + 1)

    def _token(self, node: "Node", kind: str) -> None:
        if kind == "&":
            self.doubts.append("a part runs in the background")
        elif kind not in TOKENS:
            parent = node.parent
            if not (kind in (";;", ";&", ";;&") and parent and parent.type == "case_item"):
                self.doubts.append(f"the command has {kind!r} where it cannot be judged")
                # "((a) || b)" is a calculation to one shell and two commands to another.
                self._split_span(parent or node)

    def _split_span(self, node: "Node") -> None:
        """Note every word of a node, once: thousands of odd signs can stand in the same node."""
        span = (node.start_byte, node.end_byte)
        if span not in self._split:
            self._split.add(span)
            self.tokens.extend(split_roughly(self._text(node)))

    def _leaf(self, kind: str, text: str) -> None:
        if not holds(kind, text):
            self._misread(text)

    def _misread(self, text: str) -> None:
        """Note that the grammar's view of some text is not a shell's."""
        self.unread = True
        self.doubts.append("where its words end is not certain")
        self.tokens.extend(split_roughly(text))

    def _text(self, node: "Node") -> str:
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    # Commands

    def command(self, node: "Node", depth: int) -> None:
        """Read a simple command with its assignments and redirections."""
        words: list[ShellWord] = []
        assignments: list[ShellWord] = []
        later: list[Node] = []
        if self._has_line_end(node):
            self._misread(self._text(node))
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment":
                self._prefix_assignment(child, assignments)
                later.extend(child.children)
            elif kind.endswith("_redirect"):
                later.append(child)
            elif not child.is_named and kind not in ("==", "=~", "=", "!="):
                self.doubts.append("the command has a quoting that cannot be judged")
                words.append(unknown_word(self._text(child)))
            else:
                self._argument(child, words, later)
        if words:
            self.add(tuple(words), tuple(assignments))
        for child in later:
            self.visit(child, depth + 1)

    def _argument(self, node: "Node", words: list[ShellWord], later: list["Node"]) -> None:
        word = read_word(self._text(node))
        if node.type == "process_substitution" and word.raw.startswith("<("):
            word = ShellWord(word.raw, FED_FILE)
        words.append(word)
        if node.type == "subshell":
            self.doubts.append(_ODD)
        if node.child_count:
            later.append(node.children[0] if node.type == "command_name" else node)
        else:
            self._leaf(node.type, word.raw)
        if word.value is not None and word.value != word.raw:
            self.texts.append(word.value)

    def _has_line_end(self, node: "Node") -> bool:
        """Say whether a line ends between the words of a command, where every shell ends it."""
        before = node.start_byte
        for child in node.children:
            if _LINE_END.search(self.source[before : child.start_byte + 1]):
                return True
            before = child.end_byte
        return False

    def _prefix_assignment(self, node: "Node", assignments: list[ShellWord]) -> None:
        raw = self._text(node)
        name, _, value = raw.partition("=")
        exact = read_word(value).exact if value else ""
        if not is_harmless_assignment(name, exact):
            known = exact is not None and _NAME.fullmatch(name)
            assignments.append(ShellWord(raw, f"{name}={exact}" if known else None))

    # Variables

    def assignment(self, node: "Node", depth: int) -> None:
        """Read ``name=value`` that stands alone."""
        name = node.children[0]
        if name.type != "variable_name" or not is_harmless_name(self._text(name)):
            self.doubts.append(f"it sets {self._text(name)!r}, {_LATER}")
        self._children(node, depth)

    def declaration(self, node: "Node", depth: int) -> None:
        """Read ``export``, ``declare`` and their kin."""
        exports = self._text(node.children[0]) == "export"
        for child in node.children[1:]:
            name = self._text(child).partition("=")[0]
            plain = child.type in ("variable_assignment", "variable_name")
            if not (exports and plain and is_harmless_assignment(name, None)):
                self.doubts.append(f"it declares variables, {_LATER}")
            if child.is_named:
                self._children(child, depth + 1)

    def expansion(self, node: "Node", depth: int) -> None:
        """Read ``${…}``."""
        if not _SAFE_EXPANSION.fullmatch(self._text(node)):
            self.doubts.append("it expands a variable in a way that can run commands")
        self._named_children(node, depth)

    def arithmetic(self, node: "Node", depth: int) -> None:
        """Read ``$((…))``: a variable's value is calculated in turn, and that can run commands."""
        if re.fullmatch(r"\$\(\([\s\d+*/%()-]*\)\)", self._text(node)):
            return
        self.doubts.append("it calculates with variables, and calculating can run commands")
        self.tokens.extend(split_roughly(self._text(node)))
        self._named_children(node, depth)

    def _named_children(self, node: "Node", depth: int) -> None:
        for child in node.children:
            if child.is_named:
                self.visit(child, depth + 1)

    # Redirections

    def redirect(self, node: "Node", depth: int) -> None:
        """Read ``>file`` and its kin."""
        operator = ""
        targets: list[Node] = []
        for child in node.children:
            if child.is_named and child.type != "file_descriptor":
                targets.append(child)
            elif not child.is_named:
                operator = child.type
        for target in targets:
            self._children(target, depth + 1)
        if operator in ("<&-", ">&-"):
            return
        if not targets or operator not in _REDIRECTIONS:
            self.doubts.append("it has a redirection that cannot be judged")
        for extra in targets[1:]:
            # The grammar takes "cmd >file argument" for a redirection with two targets.
            self.doubts.append("an argument follows a redirection")
            if self.commands:
                last = self.commands.pop()
                self.add((*last.words, read_word(self._text(extra))), last.assignments)
        for target in targets[:1]:
            self._open(operator, read_word(self._text(target)))

    def _open(self, operator: str, target: ShellWord) -> None:
        exact = target.exact
        if operator in (">&", "<&") and exact is not None and re.fullmatch(r"\d+-?|-", exact):
            return
        if target.value is None or target.glob:
            self.doubts.append("which file a redirection opens is not certain")
        writes = operator != "<"
        self.redirects.append(Redirect(target=target, writes=writes, moves=tuple(self.moves)))

    def heredoc(self, node: "Node", depth: int) -> None:
        """Read ``<<MARK``: what stands in it, and whether it ends where we think."""
        found = {child.type: self._text(child) for child in node.children}
        body = found.get("heredoc_body", "")
        self.texts.append(body)
        start, end = found.get("heredoc_start", ""), found.get("heredoc_end", "")
        if not self._heredoc_is_certain(start, body, end.strip("\t\n")):
            self.doubts.append("it has a here-document that cannot be judged")
        self._children(node, depth)

    def _heredoc_is_certain(self, start: str, body: str, end: str) -> bool:
        if not _HEREDOC_MARK.fullmatch(start) or self.source.count(b"<<") != 1:
            return False
        mark = start.strip("'")
        if end != mark or any(line.strip() == mark for line in body.splitlines()):
            return False
        return mark != start or not re.search(r"`|\$[({\[]|\\", body)

    def herestring(self, node: "Node", depth: int) -> None:
        """Read ``<<<text``."""
        for child in node.children:
            if child.is_named and child.type != "file_descriptor":
                self.texts.append(read_word(self._text(child)).value or self._text(child))
                self._children(child, depth + 1)

    # Control flow

    def function(self, node: "Node", depth: int) -> None:
        """Read a function's definition; it may take the place of a command."""
        self.doubts.append("it defines a function")
        self.loop(node, depth)

    def loop(self, node: "Node", depth: int) -> None:
        """Read what may run more than once."""
        self.loops += 1
        for child in node.children:
            if child.type == "variable_name" and not is_harmless_name(self._text(child)):
                self.doubts.append(f"it sets {self._text(child)!r}, {_LATER}")
        self._children(node, depth)
        self.loops -= 1

    def test(self, node: "Node", depth: int) -> None:
        """Read ``[ … ]`` and ``[[ … ]]``."""
        text = self._text(node)
        calculates = text.startswith("[[") and _CALCULATING_TEST.search(text)
        if calculates or re.search(r"\s-[vR]\s", text):
            self.doubts.append("a test calculates, and calculating can run commands")
        self._children(node, depth)

    def comment(self, node: "Node", depth: int) -> None:
        """Check that a comment is one for every shell."""
        before = self.source[: node.start_byte]
        starts_word = not before or before[-1:] in b" \t\n;"
        if not starts_word or before[-2:-1] == b"\\" or not self._text(node).startswith("#"):
            self.doubts.append("whether a part is a comment is not certain")

    def nothing(self, node: "Node", depth: int) -> None:
        """Pass over ``$x`` and ``{1..3}``, which run nothing."""


_Handler: TypeAlias = Callable[[SyntaxReader, "Node", int], None]
_HANDLERS: dict[str, _Handler] = {
    "command": SyntaxReader.command,
    "variable_assignment": SyntaxReader.assignment,
    "declaration_command": SyntaxReader.declaration,
    "expansion": SyntaxReader.expansion,
    "simple_expansion": SyntaxReader.nothing,
    "brace_expression": SyntaxReader.nothing,
    "arithmetic_expansion": SyntaxReader.arithmetic,
    "file_redirect": SyntaxReader.redirect,
    "heredoc_redirect": SyntaxReader.heredoc,
    "herestring_redirect": SyntaxReader.herestring,
    "function_definition": SyntaxReader.function,
    "for_statement": SyntaxReader.loop,
    "while_statement": SyntaxReader.loop,
    "test_command": SyntaxReader.test,
    "comment": SyntaxReader.comment,
}


MAX_LENGTH = 10_000
"""Characters beyond which a line is not read, only searched."""
_MAX_NESTED_TEXTS = 3

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE = re.compile(
    r"[\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f"
    r"\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)
_GLUED_CONTINUATION = re.compile(r"[^\s]\\\n")


@lru_cache(maxsize=256)
def read_line(text: str) -> CommandLine:
    """Read a command line. Never raises; what is not certain is a doubt of the result."""
    return _read(text, 0)


def _read(text: str, nesting: int) -> CommandLine:
    if nesting > _MAX_NESTED_TEXTS:
        return _unread(text, "commands within commands are nested too deeply")
    if len(text) > MAX_LENGTH:
        return _unread(text, "the command is too long to be judged")
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return _unread(text, "the command is not valid text")
    from tree_sitter import Parser

    root = Parser(_language()).parse(source).root_node
    reader = SyntaxReader(source, lambda inner: _read(inner, nesting + 1))
    reader.doubts.extend(_doubts_of_text(text))
    if root.has_error:
        reader.unread = True
        reader.doubts.append("the command is not valid shell")
        reader.tokens.extend(split_roughly(text))
    reader.visit(root, 0)
    return reader.line()


def _unread(text: str, doubt: str) -> CommandLine:
    return CommandLine(doubts=(doubt,), tokens=split_roughly(text), unread=True)


def _doubts_of_text(text: str) -> list[str]:
    doubts: list[str] = []
    if _CONTROL.search(text):
        doubts.append("the command has control characters")
    if not text.isascii() and _INVISIBLE.search(text):
        doubts.append("the command has invisible characters")
    if "\\\n" in text and _GLUED_CONTINUATION.search(text):
        doubts.append("a word continues on the next line")
    return doubts


@lru_cache(maxsize=1)
def _language() -> "Language":
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())
