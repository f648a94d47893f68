"""Passages as Markdown, HTML or JSON, and records as lines of JSON.

The texts of agents, people and programs are literal in every format: nothing in them can pose as a
part of the document, load a picture or run a script in the program that shows it.
"""

import json
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from html import escape
from typing import Any, Literal, Protocol, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from quarterdeck.wire.clock import format_utc_time
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import CompactionChunk, MessageChunk, TerminalOutput, ThoughtChunk
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.redaction import mask_pieces, mask_secrets, mask_values
from quarterdeck.wire.terminal_text import escape_controls

from .document import Block, Passage, read_passages

__all__ = [
    "EXPORT_FORMATS",
    "JSON_VERSION",
    "ExportFormat",
    "ExportWriter",
    "HtmlWriter",
    "JsonWriter",
    "MarkdownWriter",
    "clean_line",
    "clean_text",
    "export_session",
    "masked_lines",
]

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


def clean_text(text: str) -> str:
    """A text of several lines: no colours, line ends of one kind, all else literal."""
    return escape_controls(_COLOURS.sub("", text).replace("\r\n", "\n"), keep="\n\t")


def clean_line(text: str) -> str:
    """The same in one line."""
    return " ".join(clean_text(text).split())


_HTML_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
section {{ border-left: 3px solid #8888; padding-left: 1rem; margin: 1.5rem 0; }}
section.prompt {{ border-color: #36c; }}
section.message {{ border-color: #393; }}
section.permission, section.question {{ border-color: #c63; }}
section.sub {{ margin-left: 2rem; }}
h2 {{ font-size: 1rem; margin: 0; overflow-wrap: anywhere; }}
time, .label {{ font-size: .8rem; opacity: .7; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0; }}
pre.input, pre.output, pre.diff {{ background: #8882; padding: .5rem; font-size: .85rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
"""


class HtmlWriter:
    """Writes a page; every text in it is escaped and shown literally."""

    def begin(self, session: SessionId) -> str:
        """The head."""
        return _HTML_HEAD.format(title=_html_line(f"Session {session}"))

    def write(self, passage: Passage) -> str:
        """A section."""
        classes = passage.kind + (" sub" if passage.parent else "")
        head = (
            f'<section class="{classes}" id="seq-{passage.seq}">\n'
            f"<h2>{_html_line(passage.title)}</h2>\n"
            f"<time>{format_utc_time(passage.time)}</time>\n"
        )
        return head + "".join(_html_block(block) for block in passage.blocks) + "</section>\n"

    def end(self) -> str:
        """The foot."""
        return "</body>\n</html>\n"


def _html_block(block: Block) -> str:
    label = f'<div class="label">{_html_line(block.label)}</div>\n' if block.label else ""
    # A line end right after <pre> would be swallowed.
    return f'{label}<pre class="{block.kind}" dir="ltr">\n{escape(clean_text(block.text))}</pre>\n'


def _html_line(text: str) -> str:
    return escape(clean_line(text))


JSON_VERSION = 1


class JsonWriter:
    """Writes ``{"version": 1, "session": …, "passages": [{…}, …]}``, a passage a line."""

    def __init__(self) -> None:
        self._is_first = True

    def begin(self, session: SessionId) -> str:
        """The fields before the passages."""
        return f'{{"version":{JSON_VERSION},"session":{json.dumps(session)},"passages":['

    def write(self, passage: Passage) -> str:
        """One object."""
        lead = "\n" if self._is_first else ",\n"
        self._is_first = False
        # The escapes of JSON keep marks of direction and the like from acting where it is shown.
        return lead + json.dumps(msgspec.to_builtins(passage), separators=(",", ":"))

    def end(self) -> str:
        """The brackets that are open."""
        return "\n]}\n"


_TICKS = re.compile(r"`+")
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~&:@$^=\"'/])")
_INFO = {"text": "text", "input": "json", "output": "text", "diff": "diff"}


class MarkdownWriter:
    """Writes CommonMark."""

    def begin(self, session: SessionId) -> str:
        """The title."""
        return f"# Session {_markdown_line(session)}\n"

    def write(self, passage: Passage) -> str:
        """A heading, then a fenced block for each text."""
        within = " (sub-agent)" if passage.parent else ""
        heading = (
            f"\n## {_markdown_line(passage.title)}{within}\n\n"
            f"{format_utc_time(passage.time)} · {passage.seq}\n"
        )
        return heading + "".join(_markdown_block(block) for block in passage.blocks)

    def end(self) -> str:
        """Nothing."""
        return ""


def _markdown_block(block: Block) -> str:
    text = clean_text(block.text)
    # Longer than any fence inside, so that only ours closes it.
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    label = f"\n{_markdown_line(block.label)}\n" if block.label else ""
    end = "" if text.endswith("\n") else "\n"
    return f"{label}\n{fence}{_INFO[block.kind]}\n{text}{end}{fence}\n"


def _markdown_line(text: str) -> str:
    """A line in which nothing is special."""
    return _SPECIAL.sub(r"\\\1", clean_line(text))


ExportFormat: TypeAlias = Literal["markdown", "html", "json"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)


class ExportWriter(Protocol):
    """Writes a document; the texts joined are it."""

    def begin(self, session: SessionId) -> str:
        """What stands before the first passage."""
        ...

    def write(self, passage: Passage) -> str:
        """One passage."""
        ...

    def end(self) -> str:
        """What stands after the last one."""
        ...


_WRITERS: dict[ExportFormat, Callable[[], ExportWriter]] = {
    "markdown": MarkdownWriter,
    "html": HtmlWriter,
    "json": JsonWriter,
}


async def export_session(
    session: SessionId,
    records: AsyncIterable[Record],
    form: ExportFormat,
    *,
    masked: bool = True,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[str]:
    """Write the records of one session, in order, as a document.

    ``masked``: what looks like a secret is left out, and so are the values of those variables of
    ``environment`` whose names say that they are secret. Masking comes after chunks are joined: a
    secret that came in two pieces is found.
    """
    writer = _WRITERS[form]()
    yield writer.begin(session)
    async for passage in read_passages(records):
        yield writer.write(_mask(passage, environment) if masked else passage)
    yield writer.end()


def _mask(passage: Passage, environment: Mapping[str, str] | None) -> Passage:
    return replace(
        passage,
        title=mask_secrets(passage.title, environment),
        blocks=tuple(_mask_block(block, environment) for block in passage.blocks),
    )


def _mask_block(block: Block, environment: Mapping[str, str] | None) -> Block:
    label = None if block.label is None else mask_secrets(block.label, environment)
    return replace(block, text=mask_secrets(block.text, environment), label=label)


_WINDOW = 1_024
_HELD = 256
"""Records that are held back until it is known how what they began goes on."""
_MOST_CHARACTERS = 4 << 20


async def masked_lines(
    records: AsyncIterable[Record], environment: Mapping[str, str]
) -> AsyncIterator[bytes]:
    """The JSON form of records, each with its newline, in their order.

    The pieces of one message are masked as one text. Memory is bounded: a secret that comes in
    more than 256 pieces is masked piece by piece.
    """
    held: list[Record] = []
    characters = 0
    async for record in records:
        held.append(record)
        characters += len(_message_text(record) or "")
        if len(held) >= _WINDOW or characters >= _MOST_CHARACTERS:
            lines = _mask_records(held, environment)
            ready = max(1, len(held) - _HELD)
            for line in lines[:ready]:
                yield line
            held = held[ready:]
            characters = sum(len(_message_text(one) or "") for one in held)
    for line in _mask_records(held, environment):
        yield line


def _mask_records(records: Sequence[Record], environment: Mapping[str, str]) -> list[bytes]:
    texts: dict[int, str] = {}
    for stream in _streams(records):
        masked = mask_pieces([_message_text(records[index]) or "" for index in stream], environment)
        texts.update(zip(stream, masked, strict=True))
    return [_line(record, texts.get(index), environment) for index, record in enumerate(records)]


def _line(record: Record, text: str | None, environment: Mapping[str, str]) -> bytes:
    value = mask_values(msgspec.json.decode(msgspec.json.encode(record)), environment)
    if text is not None:
        event = value["event"]
        if isinstance(record.event, TerminalOutput):
            event["data"] = text
        else:
            event["content"]["text"] = text
    return msgspec.json.encode(value) + b"\n"


def _streams(records: Sequence[Record]) -> list[list[int]]:
    """Which of the records are pieces of one text, by their places."""
    open_: dict[tuple[Any, ...], list[int]] = {}
    streams: list[list[int]] = []
    for index, record in enumerate(records):
        if _message_text(record) is None:
            continue
        event = record.event
        key = (record.session, record.parent, type(event), *_speaker(event))
        if key not in open_:
            streams.append(open_.setdefault(key, []))
        open_[key].append(index)
    return streams


def _speaker(event: Any) -> tuple[Any, ...]:
    match event:
        case MessageChunk(role=role):
            return (role,)
        case TerminalOutput(terminal=terminal):
            return (terminal,)
        case _:
            return ()


def _message_text(record: Record) -> str | None:
    match record.event:
        case (
            MessageChunk(content=TextContent(text=text))
            | ThoughtChunk(content=TextContent(text=text))
            | CompactionChunk(content=TextContent(text=text))
        ):
            return text
        case TerminalOutput(data=data):
            return data
        case _:
            return None
