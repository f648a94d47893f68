"""Plans what accepting or rejecting a selection changes: contents, entries of the index, marks.

Nothing is changed here but that contents are kept which are needed later. Everything here blocks.
"""

from collections.abc import Mapping
from typing import NoReturn

from msgspec.structs import replace

from quarterdeck.agent.checkpoints.file_state import FileState
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.object_store import GitEntry
from quarterdeck.wire.events import ReviewMarked
from quarterdeck.wire.worktrees import ReviewMark

from .acceptance import (
    DiskStep,
    IndexStep,
    PreviousMark,
    ReviewOperation,
    ReviewOperations,
    look_at,
)
from .api import ReviewDecision, ReviewSelection
from .comparison import Comparison, FileDifference, format_content, parse_content
from .errors import ChangedMeanwhileError, NoSuchChangeError, ReviewError
from .index import IndexEntries, check_out, merge_contents
from .patch import PatchHunk
from .selection import (
    AcceptedContent,
    ChangedLines,
    changed_lines,
    reject_lines,
    split_lines,
)
from .state import FileMarks

__all__ = ["DecisionPlanner"]

_LINK = "120000"
_COMING = ("new", "copied", "renamed")
"""Kinds of changes before which there was nothing at the path."""


class DecisionPlanner:
    """Plans one acceptance or rejection.

    Args:
        comparison: what the selections are of.
        marks: what is marked so far, by the id of the file.
        operations: keeps the contents that would go.
    """

    def __init__(
        self,
        comparison: Comparison,
        marks: Mapping[str, FileMarks],
        operations: ReviewOperations,
    ) -> None:
        self.events: list[ReviewMarked] = []
        """What is to be noted when it is done."""
        self._compared = comparison
        self._marks = marks
        self._blobs = operations.blobs
        repository = comparison.repository
        self._index = IndexEntries(repository) if repository is not None else None
        self._disk: dict[bytes, DiskStep] = {}
        self._staged: dict[bytes, IndexStep] = {}
        self._before: dict[str, PreviousMark] = {}
        self._names: list[str] = []

    def accept(self, file: FileDifference, selection: ReviewSelection) -> None:
        """Plan to accept a file or lines of it.

        Raises:
            NoSuchChangeError, ReviewError: it cannot be done.
            GitError: git cannot read what is needed.
        """
        self._begin(file)
        if selection.is_whole:
            accepted = file.new
            self._stage_whole(file)
        else:
            hunks, chosen = self._choose(file, selection)
            accepted = self._accept_into(self._accepted_so_far(file), file, hunks, chosen)
            self._stage_lines(file, hunks, chosen)
        self._keep(accepted)
        self._note(file, "accepted", accepted)
        if accepted == file.new:
            self._note(file, "viewed", accepted)

    def reject(self, file: FileDifference, selection: ReviewSelection) -> None:
        """Plan to reject a file or lines of it. Raises as ``accept``, and ChangedMeanwhileError."""
        self._begin(file)
        if file.is_submodule:
            raise ReviewError(
                f"{self._name(file)!r} is a submodule; check out another commit in it instead"
            )
        state, data = self._look(file)
        if selection.is_whole:
            rest = file.old if file.kind not in _COMING else None
            self._restore_whole(file, state, data)
            self._unstage_whole(file)
        else:
            hunks, chosen = self._choose(file, selection)
            rest = self._reject_lines(file, state, data, hunks, chosen)
            self._unstage_lines(file, rest)
        self._keep(rest)
        self._reject_marks(file, rest)

    def make_operation(self, action: ReviewDecision) -> ReviewOperation:
        """The plan, to be carried out."""
        repository = self._compared.repository
        steps = [step for step in self._disk.values() if step.before != step.after]
        return ReviewOperation(
            action=action,
            root=self._compared.root,
            top=repository.top if repository is not None else None,
            git_dir=repository.git_dir if repository is not None else None,
            # A directory can only become a file again when its files are gone.
            disk=tuple(sorted(steps, key=lambda step: step.after is not None)),
            index=tuple(step for step in self._staged.values() if step.before != step.after),
            marks=tuple(self._before.values()),
            names=tuple(self._names),
        )

    # What is chosen

    def _begin(self, file: FileDifference) -> None:
        name = self._name(file)
        if file.id in self._before:
            raise ReviewError(f"{name!r} is selected twice; put its lines into one selection")
        self._names.append(name)
        marks = self._marks.get(file.id, FileMarks(path=name))
        self._before[file.id] = PreviousMark(
            file=file.id,
            path=name,
            viewed=marks.viewed,
            accepted=marks.accepted,
            rejected=marks.rejected,
        )

    def _choose(
        self, file: FileDifference, selection: ReviewSelection
    ) -> tuple[list[PatchHunk], ChangedLines]:
        if not file.has_lines:
            raise ReviewError(f"{self._name(file)!r} has no lines to choose; take the whole file")
        hunks = self._compared.compare_contents(self._id(file.old), self._id(file.new))
        chosen, there = ChangedLines.selected(selection), changed_lines(hunks)
        if not chosen.old <= there.old or not chosen.new <= there.new:
            self._refuse_lines(file, chosen, there)
        return hunks, chosen

    def _refuse_lines(
        self, file: FileDifference, chosen: ChangedLines, there: ChangedLines
    ) -> NoReturn:
        wrong = min((chosen.new - there.new) or (chosen.old - there.old))
        raise NoSuchChangeError(
            f"line {wrong} of {self._name(file)!r} is not a changed line; lines are counted from "
            "1, added ones in the new file, removed ones in the old"
        )

    def _name(self, file: FileDifference) -> str:
        return self._compared.name(file.path)

    def _id(self, entry: GitEntry | None) -> str:
        return entry.id if entry is not None else self._compared.store.put_blob(b"")

    def _content(self, entry: GitEntry | None) -> bytes:
        return self._compared.read_content(entry)

    def _keep(self, entry: GitEntry | None) -> None:
        """Keep a content that a mark names."""
        if entry is not None and not self._compared.store.has(entry.id):
            self._compared.store.put_blob(self._content(entry))

    def _note(self, file: FileDifference, mark: ReviewMark, entry: GitEntry | None) -> None:
        content = format_content(file.id, entry)
        self.events.append(ReviewMarked(path=self._name(file), mark=mark, content=content))

    # Accepting

    def _accepted_so_far(self, file: FileDifference) -> GitEntry | None:
        marks = self._marks.get(file.id)
        if marks is None or marks.accepted is None:
            return file.old
        _, entry = parse_content(marks.accepted)
        is_kept = entry is None or self._compared.store.has(entry.id)
        return entry if is_kept else file.old

    def _accept_into(
        self,
        current: GitEntry | None,
        file: FileDifference,
        hunks: list[PatchHunk],
        chosen: ChangedLines,
    ) -> GitEntry | None:
        """What an entry becomes with the chosen lines; its content is in our own store."""
        compared = self._compared
        old, now, new = self._id(file.old), self._id(current), self._id(file.new)
        content = AcceptedContent(
            old=split_lines(self._content(file.old)),
            new=split_lines(self._content(file.new)),
            current=split_lines(self._content(current)),
            change=hunks,
            done=compared.compare_contents(old, now),
            left=compared.compare_contents(now, new),
        )
        data = b"".join(content.with_lines(chosen))
        if not data and file.new is None:
            return None
        mode = current or file.old or file.new
        assert mode is not None
        return GitEntry(mode.mode, compared.store.put_blob(data))

    def _stage_whole(self, file: FileDifference) -> None:
        if file.has_lines:
            file = self._like_staged(file)
        paths = {file.path: file.new}
        if file.kind == "renamed":
            paths[file.old_path] = None
        for path, entry in paths.items():
            self._stage(path, entry, None if entry is None else self._content(entry))

    def _stage_lines(
        self, file: FileDifference, hunks: list[PatchHunk], chosen: ChangedLines
    ) -> None:
        if self._index is None or file.path in self._compared.outside:
            return
        staged = self._find_staged(file)
        if staged is not None and staged.mode[:3] != "100":
            raise ReviewError(f"{self._name(file)!r} is staged as something else; take the whole")
        entry = self._accept_into(staged, self._like_staged(file), hunks, chosen)
        self._stage(file.path, entry, None if entry is None else self._content(entry))
        if file.kind == "renamed":
            self._stage(file.old_path, None, None)

    def _find_staged(self, file: FileDifference) -> GitEntry | None:
        if self._index is None:
            return None
        staged = self._index.read({file.path, file.old_path})
        old = staged.get(file.old_path) if file.kind == "renamed" else None
        return staged.get(file.path) or old

    def _like_staged(self, file: FileDifference) -> FileDifference:
        """The change with the line ends of the index, where checkpoints have those of the disk."""
        if self._compared.is_normalized or self._index is None:
            return file
        staged = self._find_staged(file)
        converts = self._index.repository.settings.get("core.autocrlf", "") in ("true", "input")
        is_bare = staged is not None and b"\r\n" not in self._content(staged)
        if not is_bare and not (staged is None and converts):
            return file
        return replace(
            file, old=self._without_returns(file.old), new=self._without_returns(file.new)
        )

    def _without_returns(self, entry: GitEntry | None) -> GitEntry | None:
        if entry is None:
            return None
        data = self._content(entry).replace(b"\r\n", b"\n")
        return GitEntry(entry.mode, self._compared.store.put_blob(data))

    def _stage(self, path: bytes, entry: GitEntry | None, data: bytes | None) -> None:
        """Plan an entry of the index, with its content in the repository."""
        if self._index is None or path in self._compared.outside:
            return
        before = self._index.read([path]).get(path)
        if before is None and entry is not None and path in self._index.ignored([path]):
            return
        if entry is not None and entry.mode != "160000" and data is not None:
            entry = GitEntry(entry.mode, self._index.keep(data))
        self._staged[path] = IndexStep(path=path, before=before, after=entry)

    # Rejecting

    def _look(self, file: FileDifference) -> tuple[FileState | None, bytes]:
        """What is on the disk, which must be what the change led to."""
        place = self._compared.place(file.path)
        state = look_at(place, self._blobs)
        if state is None:
            if file.new is not None:
                raise ChangedMeanwhileError(self._name(file))
            return None, b""
        if not state.is_restorable:
            raise ReviewError(
                f"{self._name(file)!r} is too large to be kept for undo; change it yourself"
            )
        data = self._blobs.get(state.digest)
        new = file.new
        if new is None or (new.mode == _LINK) != (state.kind == "link"):
            raise ChangedMeanwhileError(self._name(file))
        content = self._content(new)
        is_same = data == content or (
            self._compared.is_normalized and self._is_same_file(file, data, content)
        )
        if not is_same or not self._has_mode(state, new.mode):
            raise ChangedMeanwhileError(self._name(file))
        return state, data

    def _has_mode(self, state: FileState, mode: str) -> bool:
        repository = self._compared.repository
        if repository is not None and repository.settings.get("core.filemode") == "false":
            return True
        return (mode == "100755") == state.executable

    def _is_same_file(self, file: FileDifference, data: bytes, content: bytes) -> bool:
        """Whether git would take the bytes on the disk for the content."""
        if data.replace(b"\r\n", b"\n") == content:
            return True
        repository = self._compared.repository
        assert repository is not None
        return check_out(repository, file.path, content) == data

    def _restore_whole(self, file: FileDifference, state: FileState | None, data: bytes) -> None:
        if file.kind in _COMING:
            self._plan(file.path, state, None)
        if file.kind == "renamed":
            if look_at(self._compared.place(file.old_path)) is not None:
                raise ChangedMeanwhileError(self._compared.name(file.old_path))
            self._plan(file.old_path, None, self._restored(file, data))
        elif file.kind not in _COMING:
            self._plan(file.path, state, self._restored(file, data))

    def _restored(self, file: FileDifference, data: bytes) -> FileState:
        """What the file was, with the line ends that it has on the disk."""
        old = file.old
        assert old is not None
        content = self._content(old)
        if old.mode == _LINK:
            return FileState(kind="link", digest=self._blobs.put(content))
        if self._compared.is_normalized:
            content = self._as_on_disk(file, data, content)
        return FileState(
            kind="file", digest=self._blobs.put(content), executable=old.mode == "100755"
        )

    def _as_on_disk(self, file: FileDifference, data: bytes, content: bytes) -> bytes:
        """A content with the line ends of what is on the disk; else those that git would write."""
        if file.new is not None:
            new = self._content(file.new)
            if data == new:
                return content
            if data.replace(b"\r\n", b"\n") == new:
                return _with_crlf(content) if _is_mostly_crlf(data) else content
        repository = self._compared.repository
        assert repository is not None
        return check_out(repository, file.old_path, content)

    def _reject_lines(
        self,
        file: FileDifference,
        state: FileState | None,
        data: bytes,
        hunks: list[PatchHunk],
        chosen: ChangedLines,
    ) -> GitEntry | None:
        """Plan the file without the chosen lines; returns what a snapshot would find then."""
        old, new = split_lines(self._content(file.old)), split_lines(self._content(file.new))
        lines = split_lines(data)
        if len(lines) != len(new):
            raise ReviewError(
                f"{self._name(file)!r} has another encoding on the disk; take the whole file"
            )
        rest = b"".join(reject_lines(old, new, hunks, chosen))
        if file.old is None and not rest and chosen == changed_lines(hunks):
            self._plan(file.path, state, None)
            return None
        back = old
        if data != b"".join(new) and _is_mostly_crlf(data):
            back = split_lines(_with_crlf(b"".join(old)))
        kept = b"".join(reject_lines(back, lines, hunks, chosen))
        mode = (file.new or file.old or GitEntry("100644", "")).mode
        after = FileState(kind="file", digest=self._blobs.put(kept), executable=mode == "100755")
        self._plan(file.path, state, after)
        return GitEntry(mode, self._compared.store.put_blob(rest))

    def _plan(self, path: bytes, before: FileState | None, after: FileState | None) -> None:
        place = self._compared.place(path)
        name = self._compared.name(path)
        self._disk[path] = DiskStep(path=place, name=name, before=before, after=after)

    def _unstage_whole(self, file: FileDifference) -> None:
        """What is staged of the file is staged no more; commits stay."""
        if self._index is None or file.path in self._compared.outside:
            return
        paths = {file.path, file.old_path}
        staged, committed = self._index.read(paths), self._index.read_head(paths)
        for path in paths:
            if staged.get(path) != committed.get(path):
                before = staged.get(path)
                self._staged[path] = IndexStep(path=path, before=before, after=committed.get(path))

    def _unstage_lines(self, file: FileDifference, rest: GitEntry | None) -> None:
        if self._index is None or file.path in self._compared.outside:
            return
        path = file.path
        staged = self._index.read([path]).get(path)
        if staged is None or staged == self._index.read_head([path]).get(path):
            return
        left = self._without(staged, file.new, rest)
        if left is not None:
            self._stage(path, GitEntry(staged.mode, ""), left)

    def _without(
        self, current: GitEntry, new: GitEntry | None, rest: GitEntry | None
    ) -> bytes | None:
        """A content without what was rejected; None: it cannot be distinguished."""
        if self._index is None or current.mode[:3] != "100":
            return None
        contents = (self._content(current), self._content(new), self._content(rest))
        try:
            return merge_contents(self._index.repository, *contents)
        except GitError:
            return None

    def _reject_marks(self, file: FileDifference, rest: GitEntry | None) -> None:
        self._note(file, "rejected", rest)
        marks = self._marks.get(file.id)
        if marks is None:
            return
        if marks.viewed == file.content:
            self._note(file, "viewed", rest)
        if marks.accepted is not None:
            accepted = self._accepted_so_far(file)
            left = None if accepted is None else self._without(accepted, file.new, rest)
            if accepted is not None and left is not None:
                entry = GitEntry(accepted.mode, self._compared.store.put_blob(left))
                self._note(file, "accepted", entry)


def _is_mostly_crlf(data: bytes) -> bool:
    return data.count(b"\r\n") * 2 > data.count(b"\n")


def _with_crlf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
