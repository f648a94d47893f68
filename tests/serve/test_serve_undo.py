"""Undo from an editor: commands over ACP, files and terminals that are the editor's."""

import asyncio
from pathlib import Path

from tests.support.work_trees import new_repository, state_of

FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}


async def test_what_was_written_through_the_editor_is_undone(connected, project: Path):
    before = await asyncio.to_thread(state_of, project)
    async with connected(**FILES) as editor:
        session = await editor.new(project)
        await editor.prompt(session, "scene:edit")
        assert editor.writes
        after = await asyncio.to_thread(state_of, project)
        editor.forget()
        await editor.prompt(session, "/undo")
        assert "1 file restored" in editor.said()
        assert await asyncio.to_thread(state_of, project) == before
        await editor.prompt(session, "/redo")
        assert await asyncio.to_thread(state_of, project) == after


async def test_what_the_editors_terminal_did_in_a_work_tree_is_undone(connected, project: Path):
    await asyncio.to_thread(new_repository, project, {"x": "x\n"})
    before = await asyncio.to_thread(state_of, project)
    async with connected(terminal=True, **FILES) as editor:
        session = await editor.new(project)
        await editor.prompt(session, "scene:shell")
        assert (project / "made-by-shell.txt").exists()
        editor.forget()
        await editor.prompt(session, "/undo files")
        assert "the conversation is unchanged" in editor.said()
        assert await asyncio.to_thread(state_of, project) == before


async def test_the_commands_are_offered(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        await editor.prompt(session, "/rewind")
        assert "Failed: no turn has run yet" in editor.said()
