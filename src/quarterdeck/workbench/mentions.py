"""Files that are named in a prompt: ``@path``, or ``@"path"`` where it has spaces."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct

from quarterdeck.wire.content import ContentBlock, ImageContent, ResourceLink, text

__all__ = [
    "IMAGE_TYPES",
    "Mention",
    "build_prompt",
    "find_file",
    "find_mentions",
    "format_mention",
    "keep_mentions",
    "parse_image_path",
]

IMAGE_TYPES = {
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}
_MOST_BYTES = 20_000_000
_MENTION = r'(?<!\S)@(?:"((?:[^"\\\n]|\\.)+)"|(\S+))'
_BARE = r'[^\s"\\@]+'


class Mention(Struct, frozen=True, kw_only=True):
    """A file that a text names."""

    path: str
    """As it was written, without quotes."""
    start: int
    end: int


def format_mention(path: str) -> str:
    """How a file is named in a text."""
    if re.fullmatch(_BARE, path):
        return f"@{path}"
    quoted = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'@"{quoted}"'


def find_mentions(prompt: str) -> Iterator[Mention]:
    """Every file that a text may name, in order."""
    for found in re.finditer(_MENTION, prompt):
        quoted, bare = found[1], found[2]
        path = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare.rstrip(",;:!?)")
        if path:
            yield Mention(path=path, start=found.start(), end=found.end())


def parse_image_path(pasted: str) -> str | None:
    """The path of an image, if that is all that was pasted: bare, quoted, escaped or a URL."""
    words = pasted.strip()
    if not words or "\n" in words or len(words) > 4_000:
        return None
    if words.startswith("file://"):
        words = unquote(words.removeprefix("file://"))
    elif words[0] in "'\"" and words[-1] == words[0] and len(words) > 2:
        words = words[1:-1]
    else:
        words = re.sub(r"\\(.)", r"\1", words)
    is_path = words.startswith(("/", "~/", "./", "../"))
    return words if is_path and Path(words).suffix.lower() in IMAGE_TYPES else None


def find_file(named: str, cwd: str) -> Path | None:
    """The file of a name, which may begin with ``~``; None: there is none. Blocks."""
    try:
        path = Path(cwd, Path(named).expanduser())
        return path if path.is_file() else None
    except (OSError, RuntimeError, ValueError):  # too long, no such user, a zero byte
        return None


def build_prompt(
    prompt: str, cwd: str, *, takes_images: bool = True
) -> tuple[tuple[ContentBlock, ...], list[str]]:
    """A prompt as it is sent, and what to tell the person. Blocks on files.

    The text stays as it was written; images that it names follow as images, or as links where the
    agent takes none. What is no file is only text.
    """
    blocks: list[ContentBlock] = [text(prompt)]
    notices: list[str] = []
    seen: set[Path] = set()
    for named in find_mentions(prompt):
        kind = IMAGE_TYPES.get(Path(named.path).suffix.lower())
        path = find_file(named.path, cwd) if kind is not None else None
        if kind is None or path is None or path in seen:
            continue
        seen.add(path)
        try:
            block, words = _image(path, kind, takes_images)
        except OSError as error:
            notices.append(f"cannot read {named.path!r}, sending it as text: {error.strerror}")
            continue
        blocks.append(block)
        if words:
            notices.append(words)
    return tuple(blocks), notices


def keep_mentions(
    prompt: str, cwd: str, *, takes_images: bool = True
) -> tuple[tuple[ContentBlock, ...], list[str]]:
    """Like ``build_prompt``, where the files are on another machine: images stay names there."""
    del cwd, takes_images
    kinds = (Path(one.path).suffix.lower() for one in find_mentions(prompt))
    has_image = any(kind in IMAGE_TYPES for kind in kinds)
    notices = ["the image is on the host's machine; sending its name"] if has_image else []
    return (text(prompt),), notices


def _image(path: Path, kind: str, takes_images: bool) -> tuple[ContentBlock, str]:
    size = path.stat().st_size
    link = ResourceLink(uri=path.as_uri(), name=path.name, mime_type=kind, size=size)
    if not takes_images:
        return link, f"the agent does not accept images; sending {path.name!r} as a link"
    if size > _MOST_BYTES:
        return link, f"{path.name!r} is too large ({size:,} bytes); sending it as a link"
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    return ImageContent(data=base64.b64encode(data).decode(), mime_type=kind), ""
