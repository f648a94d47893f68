"""A host that plays steps of a joint sequence with a fleet of its own, and checks each of them."""
# Looking at files for a moment is fine here: nobody waits for this process.
# ruff: noqa: ASYNC240

import asyncio
import io
import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quarterdeck.agent.checkpoints.errors import CheckpointError
from quarterdeck.fleet.api import AgentInfo
from quarterdeck.fleet.checkpoints.api import UndoResult
from quarterdeck.fleet.errors import AgentNotReadyError, FleetError, NoSuchAgentError, WorktreeError
from quarterdeck.fleet.landing.api import LandingOptions
from quarterdeck.wire.content import text
from quarterdeck.wire.worktrees import WorktreeOptions

from .deadlines import SOON
from .joint_steps import AGENTS, Step, commit_script, find_marks, write_script
from .joint_world import Kept, Picture, World, marks_in
from .kill_switch import KillSwitch
from .scripted_fleet import fleet_of, new_agent
from .work_trees import git
from .working_agents import WorkingLink, prompt, workers

if TYPE_CHECKING:
    from quarterdeck.fleet.local import LocalFleet

__all__ = ["JointHost"]


class JointHost:
    """Plays steps; ``tell`` is called before and after each, with all that must survive a kill."""

    def __init__(self, world: World, steps: list[Step], tell: Callable[..., None]) -> None:
        self.world = world
        self.steps = steps
        self.tell = tell
        self.casting = workers()
        self.fleet: LocalFleet

    async def run(self, start: int, cut: tuple[Step, Picture] | None) -> None:
        """Open what the host before left, and play from a step on; then restore all trash."""
        async with fleet_of(self.world.folder / "home", self.casting) as self.fleet:
            async with asyncio.timeout(SOON * 6):
                if cut is not None:
                    await self.settle()
                    await self.check_recovered(*cut)
                for number in range(start, len(self.steps)):
                    await self.play(number)
                self.tell("begin", len(self.steps), self.world, None)
                await self.restore_everything()
        self.tell("done", len(self.steps), self.world)

    async def play(self, number: int) -> None:
        step = self.steps[number]
        await self.settle()
        before = self.world.look()
        self.tell("begin", number, self.world, before)
        await getattr(self, f"do_{step.what.replace('-', '_')}")(step, number, before)
        self.tell("done", number, self.world)
        if step.killed_at is not None:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def danger(self, step: Step) -> Iterator[None]:
        """Where a host is killed: before the change to the disk that the step says."""
        if step.killed_at is None:
            yield
            return
        switch = KillSwitch(self.world.folder, step.killed_at)
        sys.addaudithook(switch)
        yield
        switch.is_armed = False

    # Agents

    async def find(self, who: str) -> AgentInfo | None:
        try:
            return await self.fleet.agent(who)
        except NoSuchAgentError:
            return None

    async def wake(self, who: str) -> WorkingLink | None:
        """Let an agent be live; None if its worktree is gone, which it must say."""
        info = await self.fleet.agent(who)
        if not info.is_live:
            try:
                await self.fleet.resume(who)
            except AgentNotReadyError:
                assert not os.path.lexists(self.world.places[who]), self.world.places[who]
                return None
            await self.fleet.wait([who], timeout=SOON)
        found = [one for one in self.casting.links if one.start_.spawn.name == who]
        assert isinstance(found[-1], WorkingLink)
        return found[-1]

    async def end_agents(self, tops: Iterable[str], number: int, before: Picture) -> Picture:
        """Close the agents of trees; what has landed goes with them, by itself."""
        for top in tops:
            await self.close_all(top)
        closed = self.world.look()
        self.check_pruned(before, closed)
        self.tell("begin", number, self.world, closed)
        return closed

    async def close_all(self, top: str) -> None:
        for who, place in self.world.places.items():
            if place == top and (await self.fleet.agent(who)).is_live:
                await self.fleet.close(who)
        await self.settle()

    async def settle(self) -> None:
        """Wait until what has landed and has no agent any more is gone: that comes by itself."""
        service = self.fleet.worktree_service
        ended = await service.journal.query(_find_last_end)
        while service.followed < ended:
            await asyncio.sleep(0.005)

    def is_worktree(self, who: str) -> bool:
        return self.world.places[who] != str(self.world.project)

    async def do_spawn(self, step: Step, _: int, before: Picture) -> None:
        options = {"own": WorktreeOptions(), "shared": None}
        chosen = options.get(step.how, WorktreeOptions(path=step.how))
        wanted = new_agent(self.world.project, name=step.who, mode="full-auto", worktree=chosen)
        with self.danger(step):
            info = await self.fleet.spawn(wanted)
            await self.fleet.wait([step.who], timeout=SOON)
        self.note_place(step, info)
        after = self.world.look()
        self.world.check_others(before, after)
        self.check_spawned(step, before, after)

    def note_place(self, step: Step, info: AgentInfo) -> None:
        assert (info.worktree is None) == (step.how == "shared"), info
        place = str(self.world.project) if info.worktree is None else info.worktree.path
        self.world.places[step.who] = place

    def check_spawned(self, step: Step, before: Picture, after: Picture) -> None:
        new = {name for name in after.refs if name.startswith(f"refs/heads/quarterdeck/{step.who}")}
        branches = {name.removeprefix("refs/heads/") for name in new - before.refs.keys()}
        self.world.check_repository(before, after, branches=branches)

    # Turns

    async def do_turn(self, step: Step, number: int, before: Picture) -> None:
        if await self.wake(step.who) is None:
            return
        with self.danger(step):
            await prompt(self.fleet, step.who, write_script(f"{step.who}-{number}", step.edits))
        self.check_turn(step, before, self.world.look(), (step.who,))

    async def do_overlap(self, step: Step, number: int, before: Picture) -> None:
        top = self.world.places[step.who]
        same = [who for who in AGENTS if self.world.places[who] == top and who != step.who]
        first = await self.wake(step.who)
        second = await self.wake(same[0]) if same else None
        if first is None or second is None:
            await self.do_turn(step, number, before)
            return
        whose = (step.who, same[0])
        with self.danger(step):
            for who, link, edits in zip(
                whose, (first, second), (step.edits, step.others), strict=True
            ):
                words = f"hold {write_script(f'{who}-{number}', edits)}"
                await self.fleet.send(who, (text(words),))
                await asyncio.wait_for(link.holds.wait(), SOON)
            for who, link in zip(whose, (first, second), strict=True):
                link.go_on.set()
                await self.fleet.wait([who], timeout=SOON)
        self.check_turn(step, before, self.world.look(), whose)

    def check_turn(
        self, step: Step, before: Picture, after: Picture, whose: tuple[str, ...]
    ) -> None:
        top = self.world.places[step.who]
        self.world.check_others(before, after, [top])
        self.world.check_repository(before, after)
        old, new = before.trees[top], after.trees[top]
        for who in whose:
            self.world.note_turn(who, old, new)
        self.world.fresh.pop(top, None)
        self.world.counts[step.what] += old != new
        if old != new and len(whose) == 1:
            self.world.fresh[top] = (step.who, old)

    async def do_commit(self, step: Step, _: int, before: Picture) -> None:
        if not self.is_worktree(step.who) or await self.wake(step.who) is None:
            return
        with self.danger(step):
            await prompt(self.fleet, step.who, commit_script(f"by {step.who}"))
        self.check_commit(step, before, self.world.look())

    def check_commit(self, step: Step, before: Picture, after: Picture) -> None:
        top = self.world.places[step.who]
        branches = self.world.branches_of(top, before)
        self.world.counts["commit"] += after.heads != before.heads
        self.world.check_others(before, after)
        self.world.check_repository(before, after, branches=branches, trees=[top])
        self.world.fresh.pop(top, None)

    # The person

    async def do_person(self, step: Step, number: int, before: Picture) -> None:
        where = step.who if step.how == "where" else step.how
        top = self.world.places.get(where, str(self.world.project))
        if top in before.trees:
            await self.run_shell(top, write_script(f"person-{number}", step.edits))
            self.world.fresh.pop(top, None)

    async def do_person_commit(self, *_: object) -> None:
        words = commit_script("by the person")
        await self.run_shell(str(self.world.project), words)

    async def do_person_stash(self, *_: object) -> None:
        words = "git -c user.name=P -c user.email=p@example.org stash push -q -u; true"
        await self.run_shell(str(self.world.project), words)
        self.world.fresh.pop(str(self.world.project), None)

    async def do_person_gc(self, *_: object) -> None:
        await self.run_shell(str(self.world.project), "git gc -q --prune=now")

    async def run_shell(self, top: str, words: str) -> None:
        child = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", words, cwd=top, stderr=subprocess.DEVNULL
        )
        assert await child.wait() == 0, words

    # Undo and redo

    async def do_undo(self, step: Step, _: int, before: Picture) -> None:
        top = self.world.places[step.who]
        try:
            with self.danger(step):
                await self.move(step)
        except (CheckpointError, FleetError):
            after = self.world.look()
            self.world.check_others(before, after)
            self.world.check_repository(before, after)
            assert (top in before.trees) == os.path.lexists(top), f"a part of {top} was made"
            return
        after = self.world.look()
        self.check_moved(step, before, after)
        old, new = before.trees[top], after.trees[top]
        if step.back and step.what != "redo" and old != new:
            await self.fleet.redo(step.who)
            assert self.world.look().trees[top] == old, f"redo after {step}"
            await self.move(step)
            assert self.world.look().trees[top] == new, f"again after {step}"

    do_redo = do_rewind = do_undo

    async def move(self, step: Step) -> UndoResult:
        if step.what == "undo":
            return await self.fleet.undo(step.who, force=step.force)
        if step.what == "rewind":
            return await self.fleet.rewind(step.who, "1", force=step.force)
        return await self.fleet.redo(step.who, force=step.force)

    def check_moved(self, step: Step, before: Picture, after: Picture) -> None:
        top = self.world.places[step.who]
        self.world.check_others(before, after, [top])
        self.world.check_repository(before, after)
        old, new = before.trees[top], after.trees[top]
        self.world.check_move(step, old, new)
        self.world.counts[step.what] += old != new
        who, state = self.world.fresh.pop(top, ("", {}))
        if step.what == "undo" and who == step.who and old != new:
            wrong = {path for path in {*new, *state} if new.get(path) != state.get(path)}
            assert not wrong, f"{step} is not what was before the turn: {wrong}"
        if step.what != "redo":
            back = self.world.brought_back.setdefault(step.who, set())
            back |= marks_in(new) - marks_in(old)

    # Landing

    async def do_land(self, step: Step, _: int, before: Picture) -> None:
        if not self.is_worktree(step.who):
            return
        method, into = step.how.split()
        known = self.world.reachable_marks()
        options = LandingOptions(
            method=method,  # pyright: ignore[reportArgumentType]
            into=into,
            checkout=into == "main",
            message=f"land {step.who}",
        )
        with self.danger(step):
            result = await self.fleet.land(step.who, options)
        after = self.world.look()
        if result.state == "landed":
            assert after.refs[f"refs/heads/{into}"] == result.commit
            self.check_landed(step, before, after, known)
        else:
            assert after == before, f"{step} was {result.state} and changed something"

    def check_landed(
        self, step: Step, before: Picture, after: Picture, known: set[bytes] | None
    ) -> None:
        top, (_, into) = self.world.places[step.who], step.how.split()
        self.world.counts[f"land {into}"] += 1
        project = str(self.world.project)
        moved = [project] if into == "main" else []
        is_gone = top in before.trees and top not in after.trees
        self.world.check_others(before, after, [*moved, *([top] if is_gone else ())])
        branches = {into, *self.world.branches_of(top, before)}
        self.world.check_repository(before, after, branches=branches, trees=[top, *moved])
        name = f"refs/heads/{into}"
        if name in before.refs:
            git(self.world.project, "merge-base", "--is-ancestor", before.refs[name], name)
        if known is not None:
            missing = marks_in(before.trees[top]) - known - self.marks_of(name)
            assert not missing, f"{step} did not land {sorted(missing)}"
        if moved:
            self.world.fresh.pop(project, None)
            status = git(self.world.project, "status", "--porcelain", "--untracked-files=no")
            assert status == "", f"the checkout is not as {into}: {status}"
        if is_gone:
            self.world.check_removed(top, before)
            self.world.fresh.pop(top, None)

    def marks_of(self, name: str) -> set[bytes]:
        """What is written in the files of a commit."""
        words = ["git", "-C", str(self.world.project), "archive", "--format=tar", name]
        done = subprocess.run(words, check=True, capture_output=True)
        found: set[bytes] = set()
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            for one in archive:
                file = archive.extractfile(one) if one.isfile() else None
                found |= find_marks(file.read() if file else one.linkname.encode())
        return found

    # The end of worktrees

    async def do_discard(self, step: Step, number: int, before: Picture) -> None:
        if not self.is_worktree(step.who):
            return
        top = self.world.places[step.who]
        before = await self.end_agents([top], number, before)
        try:
            with self.danger(step):
                outcome = await self.fleet.discard_worktree(top)
        except WorktreeError:
            assert top not in before.trees and not os.path.lexists(top), top
            return
        after = self.world.look()
        assert outcome.trash is not None and not os.path.lexists(top)
        self.check_ended(top, before, after)
        self.keep(outcome.trash, top, before)

    def keep(self, trash: str, top: str, before: Picture) -> None:
        self.world.counts["discard"] += 1
        self.world.kept[trash] = Kept(path=top, state=before.trees[top], head=before.heads[top])
        self.world.fresh.pop(top, None)

    def check_ended(self, top: str, before: Picture, after: Picture) -> None:
        branches = self.world.branches_of(top, before, after)
        self.world.check_others(before, after, [top])
        self.world.check_repository(before, after, branches=branches, trees=[top])

    async def do_restore(self, step: Step, number: int, before: Picture) -> None:
        if not self.world.kept:
            return
        trash = sorted(self.world.kept)[number % len(self.world.kept)]
        kept = self.world.kept[trash]
        try:
            with self.danger(step):
                await self.fleet.restore_worktree(trash)
        except WorktreeError:
            assert kept.path in before.trees
            assert self.world.look() == before
            return
        self.check_restored(trash, before, self.world.look())

    def check_restored(self, trash: str, before: Picture, after: Picture) -> None:
        kept = self.world.kept.pop(trash)
        self.world.counts["restore"] += 1
        assert after.trees[kept.path] == kept.state, f"{trash} was restored as something else"
        assert after.heads[kept.path] == kept.head
        self.check_ended(kept.path, before, after)

    async def do_remove(self, step: Step, number: int, before: Picture) -> None:
        if not self.is_worktree(step.who):
            return
        top = self.world.places[step.who]
        before = await self.end_agents([top], number, before)
        try:
            with self.danger(step):
                await self.fleet.remove_worktree(top)
        except WorktreeError:
            assert self.world.look() == before, f"{step} was refused and changed something"
            return
        assert not os.path.lexists(top)
        self.check_gone(top, before)

    def check_gone(self, top: str, before: Picture) -> None:
        self.world.counts["remove"] += 1
        self.check_ended(top, before, self.world.look())
        self.world.check_removed(top, before)
        self.world.fresh.pop(top, None)

    async def do_prune(self, step: Step, number: int, before: Picture) -> None:
        before = await self.end_agents(before.trees, number, before)
        with self.danger(step):
            outcomes = await self.fleet.prune_worktrees()
        gone = {one.worktree.path for one in outcomes}
        assert gone == before.trees.keys() - self.world.look().trees.keys()
        self.check_pruned(before, self.world.look())

    def check_pruned(self, before: Picture, after: Picture) -> None:
        gone = before.trees.keys() - after.trees.keys()
        self.world.counts["remove"] += len(gone)
        branches = {one for top in gone for one in self.world.branches_of(top, before)}
        self.world.check_others(before, after, gone)
        self.world.check_repository(before, after, branches=branches)
        for top in gone:
            self.world.check_removed(top, before)
            self.world.fresh.pop(top, None)

    async def restore_everything(self) -> None:
        """At the end everything that was ever discarded comes back, byte for byte."""
        for trash, kept in list(self.world.kept.items()):
            if os.path.lexists(kept.path):
                await self.close_all(kept.path)
                await self.fleet.discard_worktree(kept.path)
            before = self.world.look()
            await self.fleet.restore_worktree(trash)
            self.check_restored(trash, before, self.world.look())

    # After a kill

    async def check_recovered(self, step: Step, before: Picture) -> None:
        """The step in which the host before was killed has happened, or it has not."""
        after = self.world.look()
        self.world.counts["killed in the middle"] += 1
        match step.what:
            case "spawn":
                await self.recover_spawn(step, before)
            case "turn" | "overlap":
                await self.recover_turn(step, before, after)
                await self.run_queued()
            case "commit":
                self.check_commit(step, before, after)
                await self.run_queued()
            case "undo" | "redo" | "rewind":
                await self.recover_move(step, before, after)
            case "land":
                self.recover_landing(step, before, after)
            case "discard":
                await self.recover_discard(step, before, after)
            case "restore":
                await self.recover_restore(before, after)
            case "remove" | "prune":
                self.check_pruned(before, after)
            case _:
                raise AssertionError(step)

    async def recover_spawn(self, step: Step, before: Picture) -> None:
        info = await self.find(step.who)
        if info is None:
            plain = Step(what="spawn", who=step.who, how=step.how)
            await self.do_spawn(plain, 0, self.world.look())
            return
        self.note_place(step, info)
        after = self.world.look()
        self.world.check_others(before, after)
        self.check_spawned(step, before, after)
        assert await self.wake(step.who) is not None

    async def recover_turn(self, step: Step, before: Picture, after: Picture) -> None:
        top = self.world.places[step.who]
        if step.what == "overlap":
            same = [who for who in AGENTS if self.world.places[who] == top]
            self.check_turn(step, before, after, (*same, ""))
            return
        self.check_turn(step, before, after, (step.who,))
        if after != before:
            await self.fleet.undo(step.who)
            assert self.world.look() == before, f"undo of the killed {step}"
            await self.fleet.redo(step.who)
            assert self.world.look() == after, f"redo of the killed {step}"

    async def run_queued(self) -> None:
        """Let prompts that were not delivered run now, and not in a later step."""
        for who in self.world.places:
            if (await self.fleet.agent(who)).queue:
                before = self.world.look()
                assert await self.wake(who) is not None
                top = self.world.places[who]
                after = self.world.look()
                self.world.check_others(before, after, [top])
                self.world.note_turn(who, before.trees[top], after.trees[top])
                self.world.fresh.pop(top, None)

    async def recover_move(self, step: Step, before: Picture, after: Picture) -> None:
        top = self.world.places[step.who]
        if top not in before.trees:
            assert after == before and not os.path.lexists(top)
            return
        self.check_moved(step, before, after)
        if after != before and step.what != "redo":
            await self.fleet.redo(step.who)
            assert self.world.look() == before, f"redo of the killed {step}"
            await self.move(step)
            assert self.world.look() == after, f"the killed {step} was done by half"

    def recover_landing(self, step: Step, before: Picture, after: Picture) -> None:
        name = f"refs/heads/{step.how.split()[1]}"
        if after.refs.get(name) != before.refs.get(name):
            self.check_landed(step, before, after, None)
        else:
            self.world.check_others(before, after)
            self.world.check_repository(before, after)

    async def recover_discard(self, step: Step, before: Picture, after: Picture) -> None:
        top = self.world.places[step.who]
        self.check_ended(top, before, after)
        for one in await self.fleet.trash():
            if one.id not in self.world.kept:
                self.keep(one.id, top, before)
        if top in before.trees and not os.path.lexists(top):
            assert any(one.path == top for one in self.world.kept.values()), "it is in no trash"
        else:
            assert after.trees.get(top) == before.trees.get(top)

    async def recover_restore(self, before: Picture, after: Picture) -> None:
        left = {one.id for one in await self.fleet.trash()}
        for trash in self.world.kept.keys() - left:
            self.check_restored(trash, before, after)
        for top in after.trees.keys() - before.trees.keys():
            matching = [one for one in self.world.kept.values() if one.path == top]
            assert not matching or any(one.state == after.trees[top] for one in matching)
            self.check_ended(top, before, after)


def _find_last_end(connection: sqlite3.Connection) -> int:
    (seq,) = connection.execute("SELECT max(seq) FROM events WHERE type = 'session_ended'")
    return seq[0] or 0
