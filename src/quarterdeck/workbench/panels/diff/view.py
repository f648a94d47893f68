"""A patch as lines: files, hunks, signs and colours. Knows no Textual."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...rendering.code import find_file_language, highlight_code
from ...rendering.lines import Line, Span, clip
from ...sanitize import sanitize_text
from ..paths import shorten_path
from .model import PatchFile, PatchHunk

__all__ = ["PatchPage", "file_row", "patch_page"]

_KIND_SIGNS = {"changed": "M", "new": "A", "deleted": "D", "renamed": "R", "copied": "C"}
_SIGN_ROLES = {"+": "diff-added", "-": "diff-removed", " ": "faint", "\\": "faint"}
_MOST_LINES = 100_000
_LONGEST = 2_000
"""Characters of a line that are shown."""


@dataclass(slots=True)
class PatchPage:
    """The lines of a patch, and where its files and hunks begin."""

    lines: list[Line] = field(default_factory=list[Line])
    files: list[int] = field(default_factory=list[int])
    hunks: list[int] = field(default_factory=list[int])
    places: list[tuple[int, int | None]] = field(default_factory=list[tuple[int, int | None]])
    """For each line the file, and the line of the new file that it is or stands before."""


def format_patch_path(file: PatchFile) -> str:
    """A file's path as it may be shown."""
    path = sanitize_text(file.path).replace("\n", "\\n")
    if file.old_path is not None and file.old_path != file.path:
        return sanitize_text(file.old_path).replace("\n", "\\n") + " → " + path
    return path


def file_row(file: PatchFile, width: int) -> Line:
    """A file in a list; of a long path the end is shown."""
    role = {"new": "good", "deleted": "bad"}.get(file.kind, "warning")
    counts = f" +{file.added} −{file.removed}"
    path = shorten_path(format_patch_path(file), max(8, width - 2 - len(counts)))
    return ((_KIND_SIGNS[file.kind] + " ", role), (path, "text"), (counts, "faint"))


def patch_page(files: Sequence[PatchFile]) -> PatchPage:
    """All lines; of a very long patch the first. Takes time: callers are in a thread."""
    page = PatchPage()
    for number, file in enumerate(files):
        if len(page.lines) > _MOST_LINES:
            left = f"… {len(files) - number} more files"
            page.lines.append(((left, "faint"),))
            page.places.append((number, None))
            break
        page.files.append(len(page.lines))
        for line, place in _file_lines(file, page):
            page.lines.append(line)
            page.places.append((number, place))
    return page


def _file_lines(file: PatchFile, page: PatchPage) -> Iterator[tuple[Line, int | None]]:
    counts = f"  {file.kind}  +{file.added} −{file.removed}"
    yield ((format_patch_path(file), "heading"), (counts, "faint")), None
    for note in file.notes:
        yield (("  " + sanitize_text(note).replace("\n", " "), "faint"),), None
    if not file.hunks and not file.notes:
        yield (("  no changed lines", "faint"),), None
    language = _language(file.path)
    for hunk in file.hunks:
        page.hunks.append(len(page.lines))
        where = f" {sanitize_text(hunk.where)}" if hunk.where else ""
        yield ((f"@@ line {hunk.new}{where}".replace("\n", "\\n"), "faint"),), hunk.new
        yield from _hunk_lines(hunk, language)
    yield (), None


def _hunk_lines(hunk: PatchHunk, language: str) -> Iterator[tuple[Line, int | None]]:
    old = iter(_coloured(hunk, " -", language))
    new = iter(_coloured(hunk, " +", language))
    number, before = hunk.new, hunk.old
    width = len(str(max(hunk.new, hunk.old) + len(hunk.lines)))
    for sign, _ in hunk.lines:
        role = _SIGN_ROLES[sign]
        gutter: list[Span]
        if sign == "\\":
            yield ((" " * width + " \\ no newline at end of file", "faint"),), number
            continue
        if sign == "-":
            gutter = [(f"{before:>{width}} ", "faint"), ("- ", role)]
            yield (*gutter, *next(old)), number
            before += 1
            continue
        gutter = [(f"{number:>{width}} ", "faint"), (f"{sign} ", role)]
        yield (*gutter, *next(new)), number
        number += 1
        if sign == " ":
            next(old)
            before += 1


def _coloured(hunk: PatchHunk, signs: str, language: str) -> list[Line]:
    """The lines of one side, coloured as a text of their own."""
    lines = [_shown(line) for sign, line in hunk.lines if sign in signs and sign != "\\"]
    found = highlight_code("\n".join(lines), language) if lines else []
    if len(found) != len(lines):
        return [((line, "text"),) for line in lines]
    if not language:
        return [((line, "text"),) for line in lines]
    return [clip(line, _LONGEST) for line in found]


def _shown(line: str) -> str:
    text = sanitize_text(line[:_LONGEST].removesuffix("\r")).replace("\n", "\\n")
    return text + ("\\r" if line.endswith("\r") else "") + ("…" if len(line) > _LONGEST else "")


def _language(path: str) -> str:
    return find_file_language(path)
