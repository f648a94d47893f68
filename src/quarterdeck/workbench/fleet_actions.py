"""What a person does to the fleet: prompts, commands, new agents, answers. Errors are shown, and
no text is lost.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.drivers.history.session import HistorySession
    from quarterdeck.fleet.api import AgentInfo, InboxItem, SpawnOptions
    from quarterdeck.fleet.permissions.api import GroupAnswer
    from quarterdeck.policy.grants import Grant
    from quarterdeck.wire.ids import RequestId, SessionId

    from .commands.registry import WorkbenchCommand
    from .context import WorkbenchContext
    from .screens.permission import RuleScope
    from .stores.home import RecentSession

__all__ = [
    "FleetActions",
    "RuleRefusedError",
    "ShowMessage",
    "continue_session",
    "import_session",
    "record_rule",
]


class ShowMessage(Protocol):
    """Shows a line to the person."""

    def __call__(self, words: str, is_bad: bool = False, /) -> None:
        """``is_bad``: something went wrong."""
        ...


class FleetActions:
    """Does what a person wants, and tells what came of it."""

    def __init__(
        self, context: "WorkbenchContext", show_message: ShowMessage, changed: Callable[[], None]
    ) -> None:
        """Args:
        context: where the person is.
        show_message: shows what happened.
        changed: called after each deed; the agents may be others now.
        """
        self._app_context = context
        self.show_message = show_message
        """Shows what happened."""
        self._changed = changed

    async def send(self, agent: "AgentInfo", text: str, *, steers: bool = False) -> bool:
        """Send a prompt, or a message for the running turn; False if it was not taken."""
        from .commands.registry import find_command
        from .mentions import build_prompt, keep_mentions

        if text.startswith("//") and find_command(text[1:]) is not None:
            text = text[1:]  # the agent's own command of a name that is ours too
        takes_images = agent.takes_images is not False
        # Files that it mentions are on another machine if the agent is.
        build = build_prompt if self._app_context.remote is None else keep_mentions
        content, notices = await asyncio.to_thread(
            build, text, agent.cwd, takes_images=takes_images
        )
        for notice in notices:
            self.show_message(notice, False)
        fleet = self._app_context.fleet
        send = fleet.steer if steers else fleet.send
        done = await self._try(send(agent.session, content))
        if steers and done is not None and not done.steered:
            self.show_message(f"{agent.name} has no running turn; sent as a prompt", False)
        return done is not None

    async def do(self, command: "WorkbenchCommand", agent: "AgentInfo", words: str) -> None:
        """Do a command to an agent."""
        assert command.agent_action is not None
        text = await self._try(command.agent_action(self._app_context.fleet, agent, words))
        if text is not None:
            self.show_message(text, False)

    async def spawn(self, options: "SpawnOptions") -> "SessionId":
        """Start an agent. Raises QuarterdeckError, ValueError if it is refused."""
        try:
            return (await self._app_context.fleet.spawn(options)).session
        finally:
            self._changed()

    async def interrupt(self, agent: "AgentInfo") -> None:
        """End the turn of an agent."""
        await self._try(self._app_context.fleet.interrupt(agent.session))

    async def answer(self, item: "InboxItem", choice: str, feedback: str | None) -> bool:
        """Answer a permission request; False if that did not work and it is still open."""
        answering = self._app_context.fleet.answer(
            item.request, choice, by="workbench", feedback=feedback
        )
        return self._answered(await self._try(answering))

    async def answer_group(
        self,
        requests: "tuple[RequestId, ...]",
        choice: str,
        feedback: str | None,
    ) -> "GroupAnswer | None":
        """Answer several permission requests alike, or one that several people have to allow; None
        if that did not work and they are still open. ``choice`` is an option of the first.
        """
        answering = self._app_context.fleet.answer_group(
            requests, choice, by="workbench", feedback=feedback
        )
        done: GroupAnswer | None = await self._try(answering)
        if done is None:
            return None
        counts = (
            (len(done.answered) if len(requests) > 1 else 0, "answered"),
            (len(done.waiting), "allowed by you, and others have to"),
            (len(done.skipped), "already answered"),
        )
        if words := ", ".join(f"{count} {word}" for count, word in counts if count):
            self.show_message(words, False)
        return done

    async def add_rule(self, text: str, scope: "RuleScope", agent: "AgentInfo | None") -> bool:
        """Record a rule that allows calls like one of an agent; False if it cannot be."""
        places = self._app_context.discovery.places
        if places is None or agent is None:
            self.show_message("rules cannot be recorded here", True)
            return False
        return await self._try(record_rule(places, text, scope, agent.cwd)) is not None

    async def reply(self, item: "InboxItem", content: dict[str, Any] | None) -> bool:
        """Answer a question, or decline it; like ``answer``."""
        action = "decline" if content is None else "accept"
        answering = self._app_context.fleet.reply(
            item.request, action, by="workbench", content=content
        )
        return self._answered(await self._try(answering))

    def _answered(self, counted: bool | None) -> bool:
        if counted is False:
            self.show_message("this request was already answered", False)
        return counted is not None

    async def _try(self, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except (QuarterdeckError, ValueError) as error:
            self.show_message(str(error), True)
            return None
        finally:
            self._changed()


class RuleRefusedError(QuarterdeckError):
    """A rule that a person wrote allows more than people mostly mean; the message says what."""


async def record_rule(places: "Places", text: str, scope: "RuleScope", cwd: str) -> list["Grant"]:
    """Record what a person wrote as standing answers that allow; they count at once.

    Args:
        places: where standing answers are stored.
        text: a pattern such as ``bash(pytest:*)``, or several with ``", "`` between them.
        scope: in the project of ``cwd``, or everywhere.
        cwd: where the agent works.

    Raises:
        RuleError: it cannot be read; the message says where.
        RuleRefusedError: it allows very much.
        GrantsError: the file of grants cannot be read.
    """
    from quarterdeck.config.workspace import find_workspace
    from quarterdeck.fleet.permissions.grants import GrantLimits, add_lasting_grants
    from quarterdeck.policy.advice import explain_breadth
    from quarterdeck.policy.grammar import parse_rule, print_pattern

    rules = [parse_rule(f"allow {one}") for one in re.split(r"(?<=\)), (?=\w+\()", text)]
    for rule in rules:
        if (reason := await asyncio.to_thread(explain_breadth, rule)) is not None:
            command = f"quarterdeck permissions add --yes 'allow {print_pattern(rule.pattern)}'"
            raise RuleRefusedError(f"not recorded: {reason}; if you mean it: {command}")
    project = str((await asyncio.to_thread(find_workspace, Path(cwd))).project)
    limits = GrantLimits(project=project if scope == "project" else None)
    return await add_lasting_grants(places, rules, limits, by="workbench")


async def continue_session(context: "WorkbenchContext", recent: "RecentSession") -> "SessionId":
    """Go on with a session of ours or one on disk; returns the one to show.

    One that was put away is there again, one that ended is resumed if its agent can do that.

    Raises:
        QuarterdeckError: the fleet refuses, or cannot be reached.
    """
    info, fleet = recent.info, context.fleet
    if recent.past is not None:
        info = await import_session(context, recent.past, context.discovery.environment)
    assert info is not None
    if info.is_archived:
        await fleet.archive(info.session, archived=False)
    if not info.is_live and info.can_resume:
        await fleet.resume(info.session)
    return info.session


async def import_session(
    context: "WorkbenchContext", past: "HistorySession", environment: Mapping[str, str]
) -> "AgentInfo":
    """Take a session that another program keeps into our log.

    ``environment`` tells where the program keeps its sessions.

    Raises:
        QuarterdeckError: it cannot be read, or the fleet cannot be reached.
    """
    from quarterdeck.drivers.history.history import VARIABLES

    homes = {name: environment[name] for name in VARIABLES if name in environment}
    cwd = past.cwd or context.cwd
    return (await context.fleet.import_session(past.agent, past.id, homes, cwd=cwd)).agent
