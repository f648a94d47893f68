"""Write the man pages from the help texts of the commands: ``docs/man/*.1``.

One page for ``quarterdeck`` and one for each command; a group's page has its commands too. The
wheel installs them below ``share/man/man1``. Run it after a help text has changed.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from quarterdeck import __version__
from quarterdeck.cli.root import COMMANDS, root

__all__ = ["DIRECTORY", "escape_roff", "make_pages"]

DIRECTORY = Path(__file__).parents[1] / "docs" / "man"
_MARKS = {"\\": "\\e", "-": "\\-", "'": "\\[aq]", "`": "\\[ga]", "^": "\\[ha]", "~": "\\[ti]"}
"""Signs that roff or a terminal's font would change; commands are copied from manuals."""
_CODE = re.compile(r"``(.+?)``|`(.+?)`", re.DOTALL)


def make_pages() -> dict[str, str]:
    """Every page, by the name of its file."""
    context = click.Context(root, info_name="quarterdeck", **root.context_settings)
    pages = {"quarterdeck.1": _make_page(root, context, list(_list_pages(context)))}
    for name, command in _visible_commands(root, context):
        below = click.Context(command, info_name=name, parent=context)
        pages[f"quarterdeck-{name}.1"] = _make_page(command, below, list(_list_commands(below)))
    return pages


def escape_roff(text: str) -> str:
    """Text that roff prints as it is, in ASCII; a line never begins with a request."""
    escaped = "".join(_MARKS.get(one) or _escape_letter(one) for one in text)
    return re.sub(r"^(?=\.)", r"\\&", escaped, flags=re.MULTILINE)


def _escape_letter(letter: str) -> str:
    return letter if letter.isascii() else f"\\[u{ord(letter):04X}]"


def _quote(text: str) -> str:
    """An argument of a request."""
    return '"' + escape_roff(text).replace('"', "\\(dq") + '"'


def _visible_commands(
    group: click.Group, context: click.Context
) -> Iterator[tuple[str, click.Command]]:
    later = getattr(group, "later", {})
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        is_hidden = name in later and later[name].hidden
        if command is not None and not command.hidden and not is_hidden:
            yield name, command


def _make_page(command: click.Command, context: click.Context, commands: list[str]) -> str:
    name = context.command_path.replace(" ", "-")
    summary = _summarize(command, context).rstrip(".")
    lines = [
        '.\\" Written by tools/generate_manual.py from the help texts; do not edit.',
        f'.TH {_quote(name.upper())} "1" "" {_quote(f"quarterdeck {__version__}")} "Quarterdeck"',
        '.\\" No hyphens and no stretched lines: commands are copied from here.',
        ".nh",
        ".ad l",
        ".SH NAME",
        f"{escape_roff(name)} \\- {escape_roff(summary)}",
        ".SH SYNOPSIS",
        _synopsis(command, context),
        ".SH DESCRIPTION",
        *_description(command),
        *_section("OPTIONS", _options(command, context)),
        *_section("COMMANDS", commands),
        *_section("NOTES", _paragraphs(command.epilog or "")),
        *([] if command is root else [".SH SEE ALSO", "\\fBquarterdeck\\fR(1)"]),
    ]
    return "\n".join(lines) + "\n"


def _section(title: str, lines: list[str] | Iterator[str]) -> list[str]:
    found = list(lines)
    return [f".SH {title}", *found] if found else []


def _synopsis(command: click.Command, context: click.Context) -> str:
    words = " ".join(command.collect_usage_pieces(context))
    return f"\\fB{escape_roff(context.command_path)}\\fR {_emphasize(escape_roff(words))}".rstrip()


def _emphasize(words: str) -> str:
    return re.sub(r"[A-Z][A-Z_|]*[A-Z]", r"\\fI\g<0>\\fR", words)


def _summarize(command: click.Command, context: click.Context) -> str:
    """One line: the one in the list of commands, if it is in one."""
    if context.parent is not None and context.info_name in COMMANDS:
        return COMMANDS[context.info_name].help
    return " ".join((command.help or "").partition("\n\n")[0].split())


def _description(command: click.Command) -> Iterator[str]:
    return _paragraphs((command.help or "").partition("\f")[0] or command.get_short_help_str(200))


def _paragraphs(text: str) -> Iterator[str]:
    blocks = [block for block in text.strip().split("\n\n") if block.strip()]
    for number, block in enumerate(blocks):
        if number:
            yield ".PP"
        if block.startswith("\b"):  # the help keeps the lines of such a block
            yield from (".nf", *map(_format_words, block.strip("\b\n").splitlines()), ".fi")
        else:
            yield _format_words(" ".join(block.split()))


def _format_words(text: str) -> str:
    """A line of a paragraph, with code in bold."""
    parts, last = list[str](), 0
    for found in _CODE.finditer(text):
        parts.append(escape_roff(text[last : found.start()]))
        parts.append(f"\\fB{escape_roff(found[1] or found[2])}\\fR")
        last = found.end()
    return "".join(parts) + escape_roff(text[last:])


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    # Click keeps the help option of a command as it first was; here it is one that is new.
    for parameter in (*command.params, click.Command(None).get_help_option(context)):
        if not isinstance(parameter, click.Option):
            continue
        if (record := parameter.get_help_record(context)) is not None:
            yield ".TP"
            yield _name_option(record[0])
            yield _format_words(" ".join(record[1].split())) or "\\&"


def _name_option(names: str) -> str:
    escaped = escape_roff(names)
    return re.sub(r"(?<![\w])(?:\\-)+[\w?](?:[\w]|\\-\w)*", r"\\fB\g<0>\\fR", escaped)


def _list_pages(context: click.Context) -> Iterator[str]:
    for name, command in _visible_commands(root, context):
        yield ".TP"
        yield f"\\fBquarterdeck\\-{escape_roff(name)}\\fR(1)"
        below = click.Context(command, info_name=name, parent=context)
        yield _format_words(_summarize(command, below))


def _list_commands(context: click.Context) -> Iterator[str]:
    """The commands of a group, each with its options."""
    if not isinstance(context.command, click.Group):
        return
    for name, command in _visible_commands(context.command, context):
        below = click.Context(command, info_name=name, parent=context)
        words = " ".join(command.collect_usage_pieces(below))
        yield f".SS {_quote(f'{below.command_path} {words}'.rstrip())}"
        yield from _description(command)
        yield from _options(command, below)
        if command.epilog:
            yield ".PP"
            yield from _paragraphs(command.epilog)
        yield from _list_commands(below)


def main() -> int:
    """Write all pages, and remove those of commands that are gone."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    pages = make_pages()
    for path in DIRECTORY.glob("*.1"):
        if path.name not in pages:
            path.unlink()
    for name, page in pages.items():
        (DIRECTORY / name).write_text(page, "ascii")
    print(f"{len(pages)} pages in {DIRECTORY}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
