"""Passages as text in one of the forms, and the way there from records."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import Literal, Protocol, TypeAlias, get_args

from msgspec.structs import replace

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.masking import mask
from quarterdeck.wire.record import Record

from .document import passages
from .html import HtmlWriter
from .json import JsonWriter
from .markdown import MarkdownWriter
from .passages import Block, Passage

__all__ = ["FORMS", "Form", "Writer", "export_session"]

Form: TypeAlias = Literal["markdown", "html", "json"]
FORMS: tuple[Form, ...] = get_args(Form)


class Writer(Protocol):
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


_WRITERS: dict[Form, Callable[[], Writer]] = {
    "markdown": MarkdownWriter,
    "html": HtmlWriter,
    "json": JsonWriter,
}


async def export_session(
    session: SessionId,
    records: AsyncIterable[Record],
    form: Form,
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
    async for passage in passages(records):
        yield writer.write(_mask(passage, environment) if masked else passage)
    yield writer.end()


def _mask(passage: Passage, environment: Mapping[str, str] | None) -> Passage:
    return replace(
        passage,
        title=mask(passage.title, environment),
        blocks=tuple(_mask_block(block, environment) for block in passage.blocks),
    )


def _mask_block(block: Block, environment: Mapping[str, str] | None) -> Block:
    label = None if block.label is None else mask(block.label, environment)
    return replace(block, text=mask(block.text, environment), label=label)
