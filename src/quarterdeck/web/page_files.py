"""The files of the page, read once: only what is listed here can be served."""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGE_FOLDER", "PageFile", "PageFiles"]

PAGE_FOLDER = Path(__file__).parent / "page"
_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_PAGES = {"/": "/index.html", "/pair": "/index.html"}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is served."""

    kind: str
    data: bytes
    packed: bytes
    """The same, compressed."""
    mark: str
    """Names the content."""


class PageFiles:
    """All files of the page by their path in the browser."""

    def __init__(self, files: dict[str, PageFile]) -> None:
        self._files = files
        marks = "".join(f"{path}={file.mark};" for path, file in sorted(files.items()))
        self.version = hashlib.sha256(marks.encode()).hexdigest()[:16]
        """Names all of them: a page that was loaded from others is to be loaded again."""

    @classmethod
    def load(cls, folder: Path = PAGE_FOLDER) -> "PageFiles":
        """Read all. Blocks. Raises OSError."""
        files: dict[str, PageFile] = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and (kind := _KINDS.get(path.suffix)) is not None:
                data = path.read_bytes()
                packed = gzip.compress(data, 6, mtime=0)
                mark = hashlib.sha256(data).hexdigest()[:20]
                files["/" + path.relative_to(folder).as_posix()] = PageFile(
                    kind, data, packed, mark
                )
        return cls(files)

    def find(self, path: str) -> PageFile | None:
        """The file at a path; None: there is none."""
        return self._files.get(_PAGES.get(path, path))

    def paths(self) -> tuple[str, ...]:
        """Every path that is served."""
        return tuple(self._files)
