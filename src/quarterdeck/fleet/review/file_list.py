"""Files that differ, as callers see them: with marks and counts, found by path or id."""

import os
from collections import Counter
from collections.abc import Sequence

from quarterdeck.system.git.object_store import GitEntry
from quarterdeck.wire.worktrees import ReviewMark

from ..agent_entry import AgentEntry
from .api import Acceptance, AgentChanges, ChangedFile
from .comparison import Comparison, FileDifference, format_content, parse_content
from .errors import NoSuchChangeError
from .patch import PatchHunk
from .selection import changed_lines
from .state import FileMarks, ReviewState

__all__ = ["find_entry_path", "find_file", "list_changed", "measure_hunks", "within"]

_MOST_FILES = 5_000


def list_changed(
    entry: AgentEntry,
    compared: Comparison,
    files: Sequence[FileDifference],
    state: ReviewState,
    *,
    can_undo: bool = False,
) -> AgentChanges:
    """The files with what a review says about them."""
    about: Counter[str] = Counter()
    opened = 0
    for comment, _ in state.comments.values():
        opened += comment.state == "open"
        if comment.state in ("open", "sent"):
            about[parse_content(comment.content)[0]] += 1
    shared = {name for file in files for name in compared.shared.get(file.path, ())}
    shown = tuple(
        _make_changed(compared, file, state.marks.get(file.id), about[file.id])
        for file in files[:_MOST_FILES]
    )
    return AgentChanges(
        session=entry.session,
        name=entry.name,
        root=compared.name(compared.root),
        against=compared.against,
        old=compared.old,
        new=compared.new,
        files=shown,
        count=len(files),
        added=sum(file.added for file in files),
        removed=sum(file.removed for file in files),
        shared_with=tuple(sorted(shared)),
        notes=compared.notes,
        open_comments=opened,
        can_undo=can_undo,
    )


def _make_changed(
    compared: Comparison, file: FileDifference, marks: FileMarks | None, comments: int
) -> ChangedFile:
    old, new = file.old, file.new
    mark, accepted, is_changed = _weigh(file, marks)
    is_other = old is not None and new is not None and old.mode[:3] != new.mode[:3]
    return ChangedFile(
        id=file.id,
        path=compared.name(file.path),
        kind=file.kind,
        content=file.content,
        old_path=compared.name(file.old_path) if file.old_path != file.path else None,
        old_mode=old.mode if old is not None else None,
        new_mode=new.mode if new is not None else None,
        added=file.added,
        removed=file.removed,
        is_binary=file.is_binary,
        is_submodule=file.is_submodule,
        mark=mark,
        accepted=accepted,
        is_changed_since=is_changed,
        shared_with=compared.shared.get(file.path, ()),
        comments=comments,
        note="it became another kind of file" if is_other else "",
    )


def _weigh(file: FileDifference, marks: FileMarks | None) -> tuple[ReviewMark, Acceptance, bool]:
    """The mark, how much is accepted, and whether the file changed after it was viewed."""
    if marks is None:
        return "none", "none", False
    accepted: Acceptance = "none"
    if marks.accepted == file.content:
        accepted = "whole"
    elif marks.accepted not in (None, format_content(file.id, file.old)):
        accepted = "part"
    is_viewed = marks.viewed == file.content
    mark: ReviewMark = "accepted" if accepted == "whole" else "viewed" if is_viewed else "none"
    return mark, accepted, marks.viewed is not None and not is_viewed


def find_file(
    agent: str, compared: Comparison, files: Sequence[FileDifference], wanted: str
) -> FileDifference:
    """A changed file by its id, its path or its former path. Raises NoSuchChangeError."""
    name = _relative(compared, wanted)
    by_id = [file for file in files if file.id == wanted]
    by_path = [file for file in files if compared.name(file.path) == name]
    by_old_path = [file for file in files if compared.name(file.old_path) == name]
    for file in (*by_id, *by_path, *by_old_path):
        return file
    known = (compared.name(file.path) for file in files)
    raise NoSuchChangeError.of_file(agent, wanted, known)


def within(
    agent: str, compared: Comparison, files: Sequence[FileDifference], wanted: Sequence[str]
) -> list[FileDifference]:
    """Changed files by ids, paths and directories. Raises NoSuchChangeError for one without any."""
    found: dict[bytes, FileDifference] = {}
    for one in wanted:
        name = _relative(compared, one).rstrip("/")
        inside = [
            file
            for file in files
            if one == file.id
            or name in ("", ".")
            or any(
                shown == name or shown.startswith(f"{name}/")
                for shown in (compared.name(file.path), compared.name(file.old_path))
            )
        ]
        if not inside:
            known = (compared.name(file.path) for file in files)
            raise NoSuchChangeError.of_file(agent, one, known)
        found |= {file.path: file for file in inside}
    return list(found.values())


def find_entry_path(
    agent: str, compared: Comparison, files: Sequence[FileDifference], wanted: str, is_old: bool
) -> tuple[FileDifference, GitEntry]:
    """A file, changed or not, and what it is or was. Blocks. Raises NoSuchChangeError, GitError."""
    try:
        file = find_file(agent, compared, files, wanted)
    except NoSuchChangeError:
        path = os.fsencode(_relative(compared, wanted))
        entry = compared.find_entry(path)
        if entry is None:
            raise
        same = FileDifference(path=path, old_path=path, kind="changed", old=entry, new=entry)
        return same, entry
    entry = file.old if is_old else file.new
    if entry is None:
        side = "did not exist before" if is_old else "was deleted"
        hint = "" if is_old else "; comment on its removed lines instead"
        raise NoSuchChangeError(f"{compared.name(file.path)!r} {side}{hint}")
    return file, entry


def _relative(compared: Comparison, wanted: str) -> str:
    """A path as the trees have it: without what leads to them."""
    root = os.fsdecode(compared.root).rstrip("/") + "/"
    if wanted.startswith(root):
        return wanted[len(root) :]
    return wanted.removeprefix("./")


def measure_hunks(
    compared: Comparison, file: FileDifference, hunks: Sequence[PatchHunk], state: ReviewState
) -> tuple[Acceptance, ...]:
    """How much of each hunk is accepted. Blocks. Raises GitError."""
    marks = state.marks.get(file.id)
    _, accepted, _ = _weigh(file, marks)
    if accepted != "part" or marks is None or marks.accepted is None:
        return (accepted,) * len(hunks)
    _, entry = parse_content(marks.accepted)
    if entry is None or not compared.store.has(entry.id) or not file.has_lines:
        return ("none",) * len(hunks)
    empty = compared.store.put_blob(b"")
    old, new = file.old or GitEntry("", empty), file.new or GitEntry("", empty)
    missing = changed_lines(compared.compare_contents(entry.id, new.id)).new
    gone = changed_lines(compared.compare_contents(old.id, entry.id)).old
    found: list[Acceptance] = []
    for hunk in hunks:
        lines = changed_lines([hunk])
        accepts = [n not in missing for n in lines.new] + [n in gone for n in lines.old]
        found.append("whole" if all(accepts) else "part" if any(accepts) else "none")
    return tuple(found)
