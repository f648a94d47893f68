"""The text form of rules, as people write it in settings, flags and grants.

::

    rule     = effect " " pattern              effect  = "allow" | "ask" | "deny"
    pattern  = "*"
             | "bash"  [ "(" words [":*"] ")" ]
             | "read"  [ "(" path ")" ]
             | "edit"  [ "(" path ")" ]
             | "fetch" [ "(" ["*."] host [":" (port | "*")] ")" ]
             | "mcp"   [ "(" server [":" (tool | "*")] ")" ]
             | "tool"    "(" name ")"
    words    = shell words; quotes and backslashes as in a shell, nothing else is special

The argument reaches to the last character, which is the closing parenthesis, so parentheses
within it need no escape. ``bash(git log *)`` is read as ``bash(git log:*)``.
"""

import re
import shlex
from collections.abc import Callable

from .domains import HostPattern, parse_host
from .errors import RuleError
from .rules import (
    AnyCall,
    Effect,
    FetchPattern,
    McpPattern,
    NamedTool,
    PathPattern,
    Pattern,
    Rule,
    RuleSource,
    Scope,
    ShellPattern,
)

__all__ = ["parse_pattern", "parse_rule", "print_pattern", "print_rule"]

_HEAD = re.compile(r"[^\s(]*")
_NAME = re.compile(r"[^\s():*]+")
_TOOL_NAME = re.compile(r"[^\s()*]+")
_SPECIAL = re.compile(r"[;&|<>$`(){}*?\[\]~#!\n\r]")
_EFFECTS: dict[str, Effect] = {"allow": "allow", "ask": "ask", "deny": "deny"}


def parse_rule(text: str, *, scope: Scope = "user", source: RuleSource | None = None) -> Rule:
    """Read a rule such as ``deny bash(rm)``.

    Raises:
        RuleError: it says where and what was expected.
    """
    head, _, rest = text.partition(" ")
    effect = _EFFECTS.get(head)
    if effect is None:
        raise RuleError(text, 0, "'allow', 'ask' or 'deny', then a space and a pattern")
    offset = len(head) + 1 + len(rest) - len(rest.lstrip())
    try:
        pattern = parse_pattern(rest.strip())
    except RuleError as error:
        raise RuleError(text, offset + error.position, error.expected) from None
    return Rule(effect=effect, pattern=pattern, scope=scope, source=source or RuleSource())


def parse_pattern(text: str) -> Pattern:
    """Read a pattern such as ``bash(git log:*)``.

    Raises:
        RuleError: it says where and what was expected.
    """
    head_match = _HEAD.match(text)
    head = head_match.group() if head_match else ""
    if head == "*" and text == "*":
        return AnyCall()
    reader = _READERS.get(head)
    if reader is None:
        raise RuleError(text, 0, _expected_tool(head))
    if head == text:
        return reader(text, len(text), None)
    if text[len(head)] != "(":
        raise RuleError(text, len(head), "'(' or the end")
    if not text.endswith(")"):
        raise RuleError(text, len(text), "')'")
    argument = text[len(head) + 1 : -1]
    if "\x00" in argument or "\n" in argument or "\r" in argument:
        raise RuleError(text, len(head) + 1, "one line of text")
    if not argument.strip():
        raise RuleError(text, len(head) + 1, f"something between the parentheses, or only {head!r}")
    return reader(text, len(head) + 1, argument)


def print_rule(rule: Rule) -> str:
    """Return the rule's text; reading it gives an equal rule."""
    return f"{rule.effect} {print_pattern(rule.pattern)}"


def print_pattern(pattern: Pattern) -> str:
    """Return the pattern's text; reading it gives an equal pattern."""
    match pattern:
        case AnyCall():
            return "*"
        case ShellPattern(words=()):
            return "bash"
        case ShellPattern(words=words, open_ended=open_ended):
            return f"bash({_print_words(words, open_ended)}{':*' if open_ended else ''})"
        case PathPattern(access=access, glob=glob):
            name = "read" if access == "read" else "edit"
            return name if glob is None else f"{name}({glob})"
        case FetchPattern(host=host):
            return "fetch" if host is None else f"fetch({host})"
        case McpPattern(server=None):
            return "mcp"
        case McpPattern(server=server, tool=None):
            return f"mcp({server})"
        case McpPattern(server=server, tool=tool):
            return f"mcp({server}:{tool})"
        case NamedTool(name=name):
            return f"tool({name})"


def _print_words(words: tuple[str, ...], open_ended: bool) -> str:
    printed = shlex.join(words)
    # A last word such as "a:*" would be read back as an open end.
    if not open_ended and printed.endswith(":*"):
        return shlex.join(words[:-1]) + f" '{words[-1]}'"
    return printed


def _expected_tool(head: str) -> str:
    known = "'*', 'bash', 'read', 'edit', 'fetch', 'mcp' or 'tool(NAME)'"
    lowered = head.lower()
    if lowered in _SYNONYMS:
        return f"{_SYNONYMS[lowered]!r} in place of {head!r}"
    return f"{known}; another tool's rule is written tool({head or 'NAME'})"


def _read_shell(text: str, at: int, argument: str | None) -> Pattern:
    if argument is None:
        return ShellPattern()
    body = argument.strip()
    open_ended = body.endswith((":*", " *"))
    if open_ended:
        body = body[:-2].rstrip()
    if not body:
        raise RuleError(text, at, "a command before ':*', or only 'bash'")
    lexer = shlex.shlex(body, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = tuple(lexer)
    except ValueError as error:
        raise RuleError(text, at, f"closed quotes ({error})") from None
    if sign := _unquoted_special(body):
        raise RuleError(
            text,
            at + argument.index(body[0]) + sign - 1,
            "one plain command (quote special characters; an open end is written ':*')",
        )
    if not words or not words[0]:
        raise RuleError(text, at, "a command's name")
    return ShellPattern(words=words, open_ended=open_ended)


def _unquoted_special(body: str) -> int:
    """Return the place of the first unquoted special character, counted from 1; 0 for none."""
    blanked = re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.", lambda m: "x" * len(m.group()), body)
    found = _SPECIAL.search(blanked)
    return found.start() + 1 if found else 0


def _read_path(access: str) -> Callable[[str, int, str | None], Pattern]:
    def read(text: str, at: int, argument: str | None) -> Pattern:
        kind = "read" if access == "read" else "write"
        if argument is None:
            return PathPattern(access=kind)
        glob = argument.strip()
        if ".." in glob.split("/"):
            raise RuleError(text, at + argument.index(".."), "a path without '..'")
        if glob.startswith("~") and glob != "~" and not glob.startswith("~/"):
            raise RuleError(text, at, "'~/' for the home directory")
        if any("**" in part and part != "**" for part in glob.split("/")):
            raise RuleError(text, at + argument.index("**"), "'**' as a whole part of the path")
        return PathPattern(access=kind, glob=glob)

    return read


def _read_fetch(text: str, at: int, argument: str | None) -> Pattern:
    if argument is None:
        return FetchPattern()
    body = argument.strip()
    if "/" in body or "@" in body:
        raise RuleError(text, at, "a host such as docs.python.org, without scheme, user or path")
    subdomains = body.startswith("*.")
    rest = body[2:] if subdomains else body
    bracketed = re.fullmatch(r"(\[[^\]]*\])(?::(.*))?", rest)
    if bracketed:
        name, port_text = bracketed.groups()
    else:
        name, colon, port_text = rest.partition(":")
        port_text = port_text if colon else None
    host = None if "*" in name else parse_host(name)
    if host is None:
        raise RuleError(text, at, "a host; '*' may only stand for all subdomains, as in '*.host'")
    port = _read_port(text, at, port_text)
    return FetchPattern(host=HostPattern(host=host, subdomains=subdomains, port=port))


def _read_port(text: str, at: int, port: str | None) -> int | None:
    if port is None:
        return None
    if port == "*":
        return 0
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise RuleError(text, at, "a port from 1 to 65535, or '*'")
    return int(port)


def _read_mcp(text: str, at: int, argument: str | None) -> Pattern:
    if argument is None:
        return McpPattern()
    server, colon, tool = argument.strip().partition(":")
    if not _NAME.fullmatch(server):
        raise RuleError(text, at, "a server's name without spaces, ':' or '*'")
    if not colon or tool == "*":
        return McpPattern(server=server)
    if not _TOOL_NAME.fullmatch(tool):
        raise RuleError(text, at + len(server) + 1, "a tool's whole name, or '*'")
    return McpPattern(server=server, tool=tool)


def _read_tool(text: str, at: int, argument: str | None) -> Pattern:
    name = (argument or "").strip()
    if not _TOOL_NAME.fullmatch(name):
        raise RuleError(text, at, "a tool's name in parentheses, as in tool(TodoWrite)")
    return NamedTool(name=name)


_READERS: dict[str, Callable[[str, int, str | None], Pattern]] = {
    "bash": _read_shell,
    "read": _read_path("read"),
    "edit": _read_path("write"),
    "fetch": _read_fetch,
    "mcp": _read_mcp,
    "tool": _read_tool,
}

_SYNONYMS = {
    "shell": "bash",
    "run": "bash",
    "exec": "bash",
    "command": "bash",
    "write": "edit",
    "webfetch": "fetch",
    "web": "fetch",
    "domain": "fetch",
} | {name: name for name in _READERS}
