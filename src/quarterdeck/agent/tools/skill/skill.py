"""Loading a skill, or a file of one."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from quarterdeck.wire.toolcalls import ToolCallLocation, ToolKind

from ..describe import describe
from ..tool import Arguments, Live, Outcome, Prepared, Tool, ToolError, said
from ..workspace import Workspace

if TYPE_CHECKING:
    from ...library.shelves import Library
    from ...library.skills import Skill

__all__ = ["SkillArguments", "SkillTool"]


class SkillArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``skill``."""

    name: Annotated[str, Meta(description="The skill.")]
    file: Annotated[
        str | None, Meta(description="A file of its folder to read instead of the skill.")
    ] = None


class SkillTool:
    """Loads skills; the session's library is among the workspace's resources."""

    name = "skill"
    kind: ToolKind = "think"
    arguments = SkillArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return describe(__package__)

    async def prepare(self, arguments: SkillArguments, workspace: Workspace) -> Prepared:
        """Find the skill."""
        library: Library | None = workspace.resources.get(self.name)
        if library is None:
            raise ToolError("There are no skills here.")
        await library.look()
        skill = library.skills.get(arguments.name)
        if skill is None:
            known = ", ".join(sorted(library.skills)) or "none"
            raise ToolError(f"There is no skill {arguments.name!r}. Skills: {known}.")
        shown = arguments.file or "SKILL.md"
        return Prepared(
            title=f"Load skill {skill.name}" + (f": {shown}" if arguments.file else ""),
            call=workspace.call(self.name, self.kind),
            run=partial(_load, skill, arguments.file),
            locations=(ToolCallLocation(path=str(skill.folder / shown)),),
        )


async def _load(skill: "Skill", file: str | None, live: Live) -> Outcome:
    from ...library.reading import Unreadable
    from ...library.skills import files_of, loaded, read_file

    if file is None:
        return said(loaded(skill, await asyncio.to_thread(files_of, skill)))
    try:
        return said(await asyncio.to_thread(read_file, skill, file))
    except Unreadable as error:
        raise ToolError(f"{error}.") from error


if TYPE_CHECKING:
    _tool: Tool = SkillTool()
