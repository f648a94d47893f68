"""The tool ``skill``: loads a skill, or a file of one."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from quarterdeck.wire.tool_calls import ToolCallLocation, ToolKind

from ..tool import (
    Arguments,
    LiveCall,
    PreparedCall,
    Tool,
    ToolError,
    ToolOutcome,
    read_description,
    text_outcome,
)
from ..workspace import ToolWorkspace

if TYPE_CHECKING:
    from ...library.skills import Skill

__all__ = ["SkillArguments", "SkillTool"]


class SkillArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``skill``."""

    name: Annotated[str, Meta(description="The skill.")]
    file: Annotated[
        str | None, Meta(description="A file in its folder to read instead of the skill.")
    ] = None


class SkillTool:
    """Loads skills; the workspace keeps the session's library."""

    name = "skill"
    kind: ToolKind = "think"
    arguments = SkillArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__package__)

    async def prepare(self, arguments: SkillArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Find the skill."""
        from ...library import SessionLibrary

        library = workspace.find_kept(SessionLibrary)
        if library is None:
            raise ToolError("There are no skills here.")
        await library.look()
        skill = library.skills.get(arguments.name)
        if skill is None:
            known = ", ".join(sorted(library.skills)) or "none"
            raise ToolError(f"There is no skill {arguments.name!r}. Skills: {known}.")
        shown = arguments.file or "SKILL.md"
        return PreparedCall(
            title=f"Load skill {skill.name}" + (f": {shown}" if arguments.file else ""),
            call=workspace.call(self.name, self.kind),
            run=partial(_load, skill, arguments.file),
            locations=(ToolCallLocation(path=str(skill.folder / shown)),),
        )


async def _load(skill: "Skill", file: str | None, live: LiveCall) -> ToolOutcome:
    from ...frontmatter import LibraryFileError
    from ...library.skills import list_skill_files, read_skill_file, skill_text

    if file is None:
        return text_outcome(skill_text(skill, await asyncio.to_thread(list_skill_files, skill)))
    try:
        return text_outcome(await asyncio.to_thread(read_skill_file, skill, file))
    except LibraryFileError as error:
        raise ToolError(f"{error}.") from error


if TYPE_CHECKING:
    _tool: Tool = SkillTool()
