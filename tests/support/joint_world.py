"""What is known of a project whose trees agents, a person and the fleet change, and what must hold.

A world lives longer than the hosts that work in it, of which some are killed.
"""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .joint_steps import Step, find_marks
from .work_trees import git, state_of

__all__ = ["Kept", "Picture", "TreeState", "World", "marks_in"]

TreeState = dict[bytes, tuple[str, bytes, bool]]


def marks_in(state: TreeState) -> set[bytes]:
    """What was written into the files of a tree, and is there."""
    return {mark for _, data, _ in state.values() for mark in find_marks(data)}


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A worktree that was discarded, as it was."""

    path: str
    state: TreeState
    head: str


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Everything at one moment."""

    trees: dict[str, TreeState]
    """By the top; a tree that is not there is not in it."""
    indexes: dict[str, bytes | None]
    heads: dict[str, str]
    """The commit that each tree has checked out."""
    pointers: dict[str, bytes]
    """The file HEAD of each tree."""
    refs: dict[str, str]
    files: dict[str, bytes | None]
    """The repository's own: settings, the stash, hooks."""


@dataclass(kw_only=True)
class World:
    """A project, its trees, and what was done to them."""

    folder: Path
    project: Path
    places: dict[str, str] = field(default_factory=dict)
    """The tree of each agent, by the agent's name."""
    kept: dict[str, Kept] = field(default_factory=dict)
    """What is in the trash, by id."""
    brought_back: dict[str, set[bytes]] = field(default_factory=dict)
    """Marks that an undo of an agent brought back; a redo may take them away again."""
    moved: set[bytes] = field(default_factory=set)
    """Marks in files that an agent has moved; its undo moves them back, if it can."""
    touched: dict[str, set[bytes]] = field(default_factory=dict)
    """The paths that an agent has ever changed."""
    fresh: dict[str, tuple[str, TreeState]] = field(default_factory=dict)
    """By tree: who ran the last turn in it, and the files before; nothing has happened since."""
    counts: Counter[str] = field(default_factory=Counter)
    """How often something has really happened."""

    # What there is

    def tops(self) -> list[str]:
        """The trees that may exist."""
        return sorted({str(self.project), *self.places.values()})

    def look(self) -> Picture:
        """Everything as it is now."""
        tops = [top for top in self.tops() if os.path.lexists(f"{top}/.git")]
        listed = git(self.project, "for-each-ref", "--format=%(refname) %(objectname)")
        refs = dict(line.split(" ") for line in listed.splitlines())
        heads, indexes, pointers = {}, {}, {}
        for top in tops:
            own = self._git_dir(top)
            index = own / "index"
            indexes[top] = index.read_bytes() if index.exists() else None
            pointers[top] = (own / "HEAD").read_bytes()
            name = pointers[top].decode().strip().removeprefix("ref: ")
            heads[top] = refs.get(name, name)
        common = self.project / ".git"
        own_files = [common / "config", common / "logs/refs/stash", *(common / "hooks").glob("*")]
        return Picture(
            trees={top: state_of(Path(top)) for top in tops},
            indexes=indexes,
            heads=heads,
            pointers=pointers,
            refs=refs,
            files={str(one): one.read_bytes() if one.exists() else None for one in own_files},
        )

    def _git_dir(self, top: str) -> Path:
        link = Path(top) / ".git"
        if link.is_dir():
            return link
        return Path(link.read_text().removeprefix("gitdir: ").strip())

    def reachable_marks(self) -> set[bytes]:
        """Everything that was ever committed and that a reference leads to."""
        said = git(self.project, "log", "--all", "--format=%B", "-p", "--text", "-m", "--root")
        return find_marks(said.encode("utf-8", "surrogateescape"))

    # What must hold

    def check_others(self, before: Picture, after: Picture, trees: Iterable[str] = ()) -> None:
        """Nothing has changed but files of these trees."""
        for top in before.trees.keys() - set(trees):
            assert after.trees.get(top) == before.trees[top], _differ(top, before, after)

    def check_repository(
        self,
        before: Picture,
        after: Picture,
        *,
        branches: Iterable[str] = (),
        trees: Iterable[str] = (),
    ) -> None:
        """Branches, stash, settings and indexes are as before, but those of these names."""
        free = {f"refs/heads/{one}" for one in branches}

        def others(refs: dict[str, str]) -> dict[str, str]:
            return {
                name: commit
                for name, commit in refs.items()
                if name not in free and not name.startswith("refs/quarterdeck/")
            }

        assert others(after.refs) == others(before.refs), (before.refs, after.refs)
        assert after.files == before.files, "settings, hooks or stash"
        for top in before.indexes.keys() & after.indexes.keys() - set(trees):
            assert after.indexes[top] == before.indexes[top], f"the index of {top}"
            assert after.pointers[top] == before.pointers[top], f"HEAD of {top}"

    def check_move(self, step: Step, before: TreeState, after: TreeState) -> None:
        """What others wrote in a tree is there after an undo or a redo of one agent."""
        own = step.who.encode() + b"-"
        foreign = {mark for mark in marks_in(before) if not mark.startswith(own)} - self.moved
        if step.what == "redo":
            foreign -= self.brought_back.get(step.who, set())
        if not step.force:
            lost = foreign - marks_in(after)
            assert not lost, f"{step} lost {sorted(lost)}"
        touched = self.touched.get(step.who, set())
        for path in (before.keys() | after.keys()) - touched:
            assert before.get(path) == after.get(path), f"{step} changed {path!r} of others"

    def check_removed(self, top: str, before: Picture) -> None:
        """All of a worktree that is gone can be reached by a reference."""
        lost = marks_in(before.trees[top]) - self.reachable_marks()
        assert not lost, f"{top} was removed with {sorted(lost)}"

    # What is remembered

    def note_turn(self, who: str, before: TreeState, after: TreeState) -> None:
        """Remember which paths an agent has changed, and what it moved."""
        changed = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
        self.touched.setdefault(who, set()).update(changed)
        own = who.encode() + b"-"
        for path in changed - before.keys():
            found = find_marks(after[path][1])
            self.moved |= {mark for mark in found if not mark.startswith(own)}

    def branches_of(self, top: str, *pictures: Picture) -> set[str]:
        """The branches that were checked out in a tree."""
        found = {one.pointers[top] for one in pictures if top in one.pointers}
        return {
            one.decode().strip().removeprefix("ref: refs/heads/")
            for one in found
            if one.startswith(b"ref: ")
        }


def _differ(top: str, before: Picture, after: Picture) -> str:
    old, new = before.trees.get(top), after.trees.get(top)
    if old is None or new is None:
        return f"{top} {'came' if old is None else 'is gone'}"
    paths = [p for p in old.keys() | new.keys() if old.get(p) != new.get(p)]
    return f"{top} changed: {[(p, old.get(p), new.get(p)) for p in paths]}"
