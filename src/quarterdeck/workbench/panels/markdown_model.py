"""Links of a Markdown text, and where they lead within the files of this machine."""

import os
from dataclasses import dataclass
from urllib.parse import unquote

__all__ = ["MdLink", "links_of", "target_file"]

_MOST = 2_000


@dataclass(frozen=True, slots=True)
class MdLink:
    """A link: what it is called, and its target as it is written."""

    text: str
    target: str


def links_of(source: str) -> list[MdLink]:
    """Every link in order; pictures are none. The source must be literal already."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False})
    found: list[MdLink] = []
    for block in parser.parse(source):
        inside: list[str] | None = None
        target = ""
        for token in block.children or ():
            if token.type == "link_open":
                inside, target = [], str(token.attrs.get("href", ""))
            elif token.type == "link_close" and inside is not None:
                found.append(MdLink("".join(inside), target))
                inside = None
                if len(found) >= _MOST:
                    return found
            elif inside is not None:
                inside.append(token.content)
    return found


def target_file(page: str, target: str) -> str | None:
    """The file that a link of a page leads to, absolute; None: it leads elsewhere."""
    path = unquote(target.partition("#")[0].partition("?")[0])
    if not path or "\0" in path or "://" in target or target.startswith(("mailto:", "//")):
        return None
    if path.partition(":")[0].isalpha() and ":" in path.partition("/")[0]:
        return None
    return os.path.normpath(os.path.join(os.path.dirname(page), path))  # noqa: PTH118, PTH120
