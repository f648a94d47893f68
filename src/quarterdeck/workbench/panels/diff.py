"""The diff viewer: what changed in a file, in a work tree, or what a patch says."""

import asyncio
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.geometry import Size

from quarterdeck.fleet.review.patch import PatchFile, PatchHunk, make_new_file_patch, parse_patch
from quarterdeck.system.errors import GitError, NotARepositoryError
from quarterdeck.system.git.command import GitOutput
from quarterdeck.system.git.repository import GitRepository, expect_repository

from ..rendering.code import find_file_language, highlight_code
from ..rendering.diffs import shade_line
from ..rendering.glyphs import MINUS, TO
from ..rendering.lines import Line, Span, clip, width_of
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.lines_view import LineCanvas
from ..widgets.picker import Picker
from .components import HeadLine, PolledPanel, empty_lines, problem_lines
from .file.view import slice_line
from .panel import Panel, PanelOptions
from .paths import make_absolute, shorten_path

__all__ = [
    "Changes",
    "ChangesQuery",
    "DiffOptions",
    "DiffPanel",
    "PatchPage",
    "file_row",
    "patch_page",
    "read_changes",
]

MOST = 3_000_000
"""Bytes of a patch that are read."""
_MOST_NEW = 200
_BIGGEST_NEW = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesQuery:
    """What is compared with what."""

    cwd: str
    path: str | None = None
    """One file or directory, absolute or below ``cwd``; None: all of the work tree."""
    base: str | None = None
    """A commit; None: HEAD."""
    patch: str | None = None
    """A patch to show instead of asking git."""
    ignores_space: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Files that changed, or why that is not known."""

    files: tuple[PatchFile, ...] = ()
    problem: str | None = None
    is_cut: bool = False
    """There is more than is shown."""
    against: str = ""
    """What it is compared with, in words."""


def read_changes(wanted: ChangesQuery) -> Changes:
    """Find out; never raises for what a repository can be. Blocks."""
    if wanted.patch is not None:
        is_cut = len(wanted.patch) > MOST
        return Changes(files=tuple(parse_patch(wanted.patch[:MOST])), is_cut=is_cut)
    cwd, path = _place(wanted)
    if not os.path.isdir(cwd):  # noqa: PTH112
        return Changes(problem=f"{cwd!r} is not a directory.")
    try:
        repository = expect_repository(cwd)
        place = repository.top if path is None else cwd
        return _compare(_Repository(repository, place), path, wanted)
    except NotARepositoryError:
        return Changes(problem=f"{cwd!r} is not in a git repository.")
    except GitError as error:
        return Changes(problem=str(error))


def _place(wanted: ChangesQuery) -> tuple[str, str | None]:
    """Where to ask git, and about which path: a file may be in another repository than ``cwd``."""
    if wanted.path is None:
        return wanted.cwd, None
    path = os.path.join(wanted.cwd, wanted.path)  # noqa: PTH118 - a name may be no valid text
    return (path, ".") if os.path.isdir(path) else os.path.split(path)  # noqa: PTH112


class _Repository:
    """One repository, asked from one of its directories."""

    def __init__(self, repository: GitRepository, cwd: str) -> None:
        self.top = repository.top
        self._repository = repository
        self._cwd = cwd

    def __call__(self, words: list[str], most: int = 4_000_000) -> GitOutput:
        return self._repository.ask(words, cwd=self._cwd, most=most)


def _compare(ask: _Repository, path: str | None, wanted: ChangesQuery) -> Changes:
    only = ["--", f":(literal){path}" if path != "." else "."] if path is not None else ["--"]
    base, against = _base(ask, wanted.base)
    words = ["diff", "--find-renames", "--patch", "--src-prefix=a/", "--dst-prefix=b/"]
    words += ["-w"] if wanted.ignores_space else []
    answer = ask([*words, base, *only], MOST)
    files = parse_patch(answer.data.decode("utf-8", "surrogateescape"))
    new, more = _new_files(ask, only)
    return Changes(files=(*files, *new), is_cut=answer.is_cut or more, against=against)


def _base(ask: _Repository, base: str | None) -> tuple[str, str]:
    """A commit to compare with; of a repository without one: nothing at all."""
    name = base or "HEAD"
    try:
        words = ["rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}"]
        return ask(words).data.decode().strip(), name
    except GitError:
        if base is not None:
            raise GitError(f"no branch or commit {base!r} here.") from None
    empty = ask(["hash-object", "-t", "tree", "/dev/null"]).data.decode().strip()
    return empty, "nothing (no commits yet)"


def _new_files(ask: _Repository, only: list[str]) -> tuple[list[PatchFile], bool]:
    words = ["ls-files", "--others", "--exclude-standard", "--full-name", "-z", *only]
    answer = ask(words, 1_000_000)
    names = [os.fsdecode(name) for name in answer.data.split(b"\0")[:-1]]
    found = [_new_file(ask.top, name) for name in names[:_MOST_NEW]]
    return found, answer.is_cut or len(names) > _MOST_NEW


def _new_file(top: str, name: str) -> PatchFile:
    from .file.model import FilePanelReadError, FileReader

    reader = FileReader(f"{top}/{name}")
    try:
        facts = reader.open()
        if facts.is_binary or facts.size > _BIGGEST_NEW:
            kind = "binary" if facts.is_binary else "big"
            return make_new_file_patch(name, (), [f"{kind}, {facts.size:,} bytes"])
        return make_new_file_patch(name, reader.first().lines if facts.size else ())
    except FilePanelReadError as error:
        return make_new_file_patch(name, (), [str(error)])


_KIND_SIGNS = {
    "changed": "M",
    "new": "A",
    "deleted": "D",
    "renamed": "R",
    "copied": "C",
    "mode": "M",
}
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
        return sanitize_text(file.old_path).replace("\n", "\\n") + f" {TO} " + path
    return path


def file_row(file: PatchFile, width: int) -> Line:
    """A file in a list; of a long path the end is shown."""
    role = {"new": "good", "deleted": "bad"}.get(file.kind, "warning")
    counts = f" +{file.added} {MINUS}{file.removed}"
    path = shorten_path(format_patch_path(file), max(8, width - 2 - len(counts)))
    gap = max(0, width - 2 - len(counts) - width_of(((path, "text"),)))
    name: Span = (path + " " * gap, "text")
    return ((_KIND_SIGNS[file.kind] + " ", role), name, (counts, "faint"))


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
    counts = f"  {file.kind}  +{file.added} {MINUS}{file.removed}"
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
            yield (*gutter, *_shade(next(old), sign)), number
            before += 1
            continue
        gutter = [(f"{number:>{width}} ", "faint"), (f"{sign} ", role)]
        yield (*gutter, *_shade(next(new), sign)), number
        number += 1
        if sign == " ":
            next(old)
            before += 1


def _shade(line: Line, sign: str) -> Iterator[Span]:
    """A line on the ground of its sign, as in a conversation and a review."""
    spans: Line = line or (("", "text"),)
    yield from shade_line(tuple((text, role, False) for text, role in spans), sign)


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


_WIDE = 70
"""Cells from which on the list of files is beside the changes."""


class DiffOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a diff viewer can be given; without anything: the work tree where the person is."""

    agent: str | None = None
    """An agent's name or session: its directory is compared."""
    cwd: str | None = None
    path: str | None = None
    """Only this file or directory."""
    base: str | None = None
    """What it is compared with; None: HEAD."""
    patch: str | None = None
    """A patch to show instead of asking git."""


class _Files(Picker):
    """The files that changed."""

    def __init__(self, panel: "DiffPanel") -> None:
        super().__init__(id="files")
        self._panel = panel

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        files = self._panel.changes.files
        return [(str(at), file_row(file, width)) for at, file in enumerate(files)]


class PatchView(LineCanvas):
    """The lines of a patch."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", "up", show=False),
        Binding("j", "scroll_down", "down", show=False),
        Binding("left", "shift(-8)", "left", show=False),
        Binding("right", "shift(8)", "right", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="patch")
        self.page = PatchPage()
        self._left = 0

    def show(self, page: PatchPage, top: int) -> None:
        """Show another patch."""
        self.page = page
        self.virtual_size = Size(self.scrollable_content_region.width, len(page.lines))
        self.scroll_to(y=top, animate=False, force=True)
        self.refresh()

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``LineCanvas``."""
        if y >= len(self.page.lines):
            return (), False
        line, width = self.page.lines[y], self.scrollable_content_region.width
        if self._left and y not in self.page.files:
            line = slice_line(line, self._left, self._left + width + 1)
        line = clip(line, width)
        _, _, ground = line[-1][1].partition("/") if line else ("", "", "")
        if ground:  # to the edge, also where nothing stands
            line = (*line, (" " * (width - width_of(line)), f"text/{ground}"))
        return line, False

    def action_shift(self, step: int) -> None:
        """Look further to the right or left."""
        self._left = max(0, min(2_000, self._left + step))
        self.refresh()


class DiffPanel(PolledPanel):
    """Files, and below each its hunks. It changes nothing."""

    has_head: ClassVar[bool] = False
    options_type: ClassVar[type[PanelOptions]] = DiffOptions
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n,right_square_bracket", "hunk(1)", "next hunk"),
        Binding("p,left_square_bracket", "hunk(-1)", "previous hunk"),
        Binding("N,right_curly_bracket", "file(1)", "next file"),
        Binding("P,left_curly_bracket", "file(-1)", "previous file"),
        Binding("w", "space", "show or hide whitespace changes"),
        Binding("f", "files", "show or hide the file list"),
        Binding("r", "reload", "refresh"),
        Binding("v", "hand_on('view')", "view the file"),
        Binding("e", "hand_on('edit')", "edit the file"),
    ]

    def __init__(self, context: Any, options: DiffOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.changes = Changes()
        self._ignores_space = False
        self._is_read = False
        self._is_known = False
        """It was compared at least once."""
        self._shows_files: bool | None = None
        self._scroll: int | None = None
        self.head: HeadLine = HeadLine()
        self.files = _Files(self)
        self.view = PatchView()

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.head
        yield Horizontal(self.files, self.view, id="sides")

    def on_mount(self) -> None:
        """Nothing is known yet."""
        self._arrange()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        what = self.options.path or self.options.agent
        if what is None:
            return "patch" if self.options.patch is not None else "diff"
        return "diff " + sanitize_line(str(what).rpartition("/")[2], 60)

    @property
    def comparison(self) -> ChangesQuery:
        """What is compared."""
        return ChangesQuery(
            cwd=self._cwd(),
            path=self.options.path,
            base=self.options.base,
            patch=self.options.patch,
            ignores_space=self._ignores_space,
        )

    def focus_target(self) -> PatchView:
        """See ``PolledPanel``."""
        return self.view

    def change(self, options: Any) -> bool:
        """See ``Panel``."""
        self.options, self._is_read, self._scroll = options, False, 0
        self.post_message(Panel.Renamed(self))
        self.look_now()
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        scroll = self.view.scroll_offset.y if self.is_mounted else 0
        return {"scroll": scroll, "ignores_space": self._ignores_space}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        self._ignores_space = state.get("ignores_space") is True
        if isinstance(state.get("scroll"), int):
            self._scroll = state["scroll"]

    async def look(self) -> None:
        """Compare, the first time; afterwards only when asked: a page under review stays still."""
        if self._is_read:
            return
        self._is_read = True
        self.changes = await asyncio.to_thread(read_changes, self.comparison)
        page = await asyncio.to_thread(patch_page, self.changes.files)
        top = self.view.scroll_offset.y if self._scroll is None else self._scroll
        self._scroll, self._is_known = None, True
        self.view.show(page, top)
        self._arrange()

    def action_hunk(self, step: int) -> None:
        """Go to the next hunk, or the one before."""
        self._go(self.view.page.hunks, step)

    def action_file(self, step: int) -> None:
        """Go to the next file, or the one before."""
        self._go(self.view.page.files, step)

    def action_space(self) -> None:
        """Count changes of white space, or not."""
        self._ignores_space = not self._ignores_space
        self.action_reload()

    def action_files(self) -> None:
        """Show the list of files, or hide it."""
        self._shows_files = not self.files.display
        self._arrange()

    def action_reload(self) -> None:
        """Compare again."""
        self._is_read = False
        self.look_now()

    def action_hand_on(self, how: Any) -> None:
        """Show the file at the top in another way."""
        places = self.view.page.places
        if not self.changes.files or not places:
            return
        number, line = places[min(self.view.scroll_offset.y, len(places) - 1)]
        if number < len(self.changes.files):
            self.run_worker(partial(self._hand_on, self.changes.files[number].path, line, how))

    @on(Picker.Chosen, "#files")
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        files = self.view.page.files
        if int(event.key) < len(files):
            self.view.scroll_to(y=files[int(event.key)], animate=False, force=True)
        self.view.focus()

    def on_resize(self) -> None:
        """The list of files needs room."""
        self._arrange()

    def _cwd(self) -> str:
        wanted = self.options.agent
        if wanted is not None:
            found = self.context.roster.find(self.context.find_session(wanted))
            if found is not None:
                return found.cwd
        return make_absolute(self.context.cwd, self.options.cwd or ".")

    async def _hand_on(self, path: str, line: int | None, how: Any) -> None:
        cwd = self._cwd()
        try:
            top = (await asyncio.to_thread(expect_repository, cwd)).top
        except GitError:
            top = cwd
        self.post_message(Panel.FileWanted(f"{top}/{path}", line, how))

    def _go(self, places: list[int], step: int) -> None:
        top = self.view.scroll_offset.y
        at = bisect_right(places, top) if step > 0 else bisect_left(places, top) - 1
        if 0 <= at < len(places):
            self.view.scroll_to(y=places[at], animate=False, force=True)

    def _instead(self) -> PatchPage:
        width = max(10, self.size.width - 2)
        if self.changes.problem is not None:
            return PatchPage(lines=problem_lines(self.changes.problem, width))
        against = f" against {sanitize_text(self.changes.against)}" if self.changes.against else ""
        hints = [("r", "compares again")]
        return PatchPage(lines=empty_lines(f"No changes{against}.", hints, width))

    def _arrange(self) -> None:
        if not self.is_mounted:
            return
        files = self.files
        has_room = self.size.width >= _WIDE and len(self.changes.files) > 1
        shows = has_room if self._shows_files is None else self._shows_files
        files.display = shows and bool(self.changes.files)
        files.update()
        if self._is_known and not self.changes.files:
            self.view.show(self._instead(), 0)
        self._head()

    def _head(self) -> None:
        changes = self.changes
        if not self._is_read or changes.problem is not None:
            self.head.show(self.title)
            return
        added = sum(file.added for file in changes.files)
        removed = sum(file.removed for file in changes.files)
        one = format_patch_path(changes.files[0]) if len(changes.files) == 1 else ""
        parts = [f"{len(changes.files)} files"] if len(changes.files) > 1 else []
        parts += [f"+{added} {MINUS}{removed}"] if changes.files else []
        parts += [f"against {sanitize_text(changes.against)}"] if changes.against else []
        parts += ["ignoring whitespace"] if self._ignores_space else []
        parts += ["truncated"] if changes.is_cut else []
        self.head.show(one or self.title, *((part, "faint") for part in parts))
