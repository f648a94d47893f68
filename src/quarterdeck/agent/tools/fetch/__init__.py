"""The tool ``fetch``: one page of the web as text, checked at every redirect, bounded in time
and size.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from msgspec import Meta

from quarterdeck.policy.domains import UrlTarget, parse_target
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.tool_calls import ToolKind

from ..tool import (
    Arguments,
    LiveCall,
    PreparedCall,
    Tool,
    ToolError,
    ToolOutcome,
    read_description,
    text_outcome,
)
from ..workspace import ToolWorkspace
from .download import (
    FetchedPage,
    MovedPage,
    Resolve,
    check_name,
    download_page,
    readable,
    resolve_by_system,
)

__all__ = ["FetchArguments", "FetchTool", "Format"]

Format: TypeAlias = Literal["markdown", "text", "html"]
_ERROR_SHOWN = 2000


class FetchArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``fetch``."""

    url: Annotated[str, Meta(description="The URL, starting with http:// or https://.")]
    format: Format = "markdown"
    offset: Annotated[int, Meta(ge=0, description="First character of the page to return.")] = 0
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Maximum number of characters to return."),
    ] = None


class FetchTool:
    """Gets a page. ``resolve`` looks names up; tests give their own."""

    name = "fetch"
    kind: ToolKind = "fetch"
    arguments = FetchArguments

    def __init__(self, resolve: Resolve = resolve_by_system) -> None:
        self._resolve = resolve

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__package__)

    async def prepare(self, arguments: FetchArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Read the address; nothing is looked up or opened."""
        url = arguments.url.strip()
        target = parse_target(url)
        if isinstance(target, str):
            raise ToolError(f"{url!r} cannot be fetched: {target}.")
        check_name(target, allow_private=workspace.options.fetch_allow_private)
        return PreparedCall(
            title=f"Fetch {url}",
            call=workspace.call(self.name, self.kind, urls=(url,)),
            run=partial(_fetch, url, target, arguments, workspace, self._resolve),
            shows={"url": url},
        )


async def _fetch(
    url: str,
    target: UrlTarget,
    arguments: FetchArguments,
    workspace: ToolWorkspace,
    resolve: Resolve,
    live: LiveCall,
) -> ToolOutcome:
    options = workspace.options
    try:
        async with asyncio.timeout(options.fetch_timeout):
            found = await download_page(
                url,
                target,
                resolve,
                allow_private=options.fetch_allow_private,
                timeout=options.fetch_timeout,
                limit=options.fetch_bytes,
            )
    except TimeoutError:
        raise ToolError(
            f"{target} did not answer completely within {options.fetch_timeout:g} s."
        ) from None
    if isinstance(found, MovedPage):
        return text_outcome(
            f"{found.url} redirects to another host: {found.to}\n"
            "Nothing was fetched from there. Fetch that address if you want it."
        )
    text = await asyncio.to_thread(readable, found, arguments.format)
    if found.status >= 400:
        message = f"{found.url} answered with status {found.status}.\n\n{text[:_ERROR_SHOWN]}"
        return text_outcome(message.rstrip(), is_error=True)
    limit = min(arguments.limit or options.output_bytes, options.output_bytes)
    return _result_text(found, url, text, arguments.offset, limit)


def _result_text(page: FetchedPage, url: str, text: str, offset: int, limit: int) -> ToolOutcome:
    """A part of the text, and exactly which part of what."""
    notes: list[str] = []
    if page.url != url:
        notes.append(f"redirected to {page.url}")
    if page.is_cut:
        known = f" of {page.length}" if page.length is not None else ""
        notes.append(f"only the first {len(page.data)}{known} bytes were read")
    if offset and offset >= len(text):
        raise ToolError(f"The page has {len(text)} characters; offset {offset} is beyond its end.")
    part = text[offset : offset + limit]
    if len(part) < len(text):
        end = offset + len(part)
        notes.append(f"characters {offset} to {end} of {len(text)}")
        if end < len(text):
            notes.append(f"continue with offset={end}")
    note = f"\n\n[{'; '.join(notes)}]" if notes else ""
    return ToolOutcome(
        result=(TextPart(text=(part or "(the page is empty)") + note),),
        raw_output={"status": page.status, "type": page.type, "bytes": len(page.data)},
    )


if TYPE_CHECKING:
    _tool: Tool = FetchTool()
