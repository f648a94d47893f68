"""The application: passes what the fleet reports to the stores, and what a person does to the
fleet.
"""

import asyncio
import select
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import BindingType
from textual.screen import Screen

from .approvals import RequestPresenter
from .command_app import WORKBENCH_BINDINGS, CommandApp
from .context import WorkbenchContext
from .feed import ReachHost, WorkbenchFeed
from .fleet_actions import FleetActions
from .panels.chat import ChatPanel
from .prompt_sender import PromptSender
from .sanitize import sanitize_text
from .widgets.agent_table import AgentTable
from .widgets.chat_input import ChatInput
from .widgets.picker import Picker
from .widgets.transcript import TranscriptView
from .workspace.store import LAYOUT_KEYS

if TYPE_CHECKING:
    from .screens.permission import PermissionScreen
    from .screens.question import QuestionScreen
    from .screens.trust import TrustScreen

__all__ = ["Workbench", "is_terminal_gone", "leave_on_signals", "now"]


_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def is_terminal_gone() -> bool:
    """Whether the terminal of our input is gone. Does not wait."""
    try:
        watch = select.poll()
        watch.register(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0, select.POLLIN)
        return any(event & (select.POLLHUP | select.POLLNVAL) for _, event in watch.poll(0))
    except (OSError, ValueError):
        return True


def leave_on_signals(leave: Callable[[int], None]) -> None:
    """Leave in good order when told to end: whoever just dies leaves the terminal as it was drawn.

    ``leave`` gets the exit code that a shell gives for the signal.
    """
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, leave, 128 + number)


_SAVE = 0.3
"""Seconds after which what was typed is on disk."""
_LOOK = 2.0
_STAYED = 0.3
"""Seconds after which somebody looks at an agent, and is not on the way to another."""
_MAIN_ONLY = frozenset({"help", "answer", "beside", "spawn", "stop", "unfold", "go"}) | LAYOUT_KEYS


def now() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000


class Workbench(CommandApp):
    """Agents, their transcripts, and what they ask; leaving it ends no agent.

    Args:
        desk: the fleet and what is known of it.
        reach: how the fleet is reached; see ``WorkbenchFeed``.
        leave: called at the end.
        begun: called when the first frame is on the screen.
    """

    CSS_PATH = "workbench.tcss"
    TITLE = "quarterdeck"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (17, "-tall")]  # noqa: RUF012 - as Textual has it
    BINDINGS: ClassVar[list[BindingType]] = WORKBENCH_BINDINGS

    def __init__(
        self,
        desk: WorkbenchContext,
        reach: ReachHost,
        leave: Callable[[], Awaitable[None]] | None = None,
        begun: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(desk)
        self._leave = leave
        self._begun = begun
        self.animation_level = "none"
        self.feed = WorkbenchFeed(desk.fleet, reach, self.post_message)
        self.steering = FleetActions(desk, self.tell, self.feed.refresh)
        self.deciding = RequestPresenter(self, desk)
        self.crash: Exception | None = None
        """What ended it, if it was not a person."""
        self.conversing = PromptSender(self, self._save_soon)
        self._is_unfolded = False
        self._seen = desk.shown
        self._saving = asyncio.Lock()

    def get_default_screen(self) -> Screen[None]:
        """The screen below all others."""
        return self.main

    def on_mount(self) -> None:
        """Show the frame first; the rest comes when it comes."""
        self.call_after_refresh(self._begin)
        self.desk.watch(self._selected)
        if not self.is_headless:
            self.set_interval(_LOOK, self._look_for_terminal)
            leave_on_signals(lambda code: self.exit(return_code=code))

    async def on_unmount(self) -> None:
        """Keep what was typed, and leave the fleet to itself; what is open is kept beside that."""
        with suppress(OSError):
            await asyncio.to_thread(self.desk.drafts.flush)
        if self._leave is not None:
            await self._leave()

    def tell(self, words: str, is_bad: bool = False) -> None:
        """Show a line for some time."""
        severity = "error" if is_bad else "information"
        self.notify(
            sanitize_text(words), severity=severity, timeout=8 if is_bad else 3, markup=False
        )

    # What the fleet says

    @on(WorkbenchFeed.HostChanged)
    def _host_changed(self, event: WorkbenchFeed.HostChanged) -> None:
        self.main.show_host(event.state, event.reason)

    @on(WorkbenchFeed.Known)
    def _known(self, event: WorkbenchFeed.Known) -> None:
        desk = self.desk
        desk.roster.replace(event.agents, event.status)
        desk.inbox.replace(event.inbox)
        self.restore_selected()
        self.deciding.check()
        self._offer()

    @on(WorkbenchFeed.Happened)
    def _happened(self, event: WorkbenchFeed.Happened) -> None:
        self.desk.roster.take(event.records)
        self.desk.pages.live(event.records)
        self.desk.tell(event.records)
        self.feed.ready()

    # What a person does

    @on(TranscriptView.Wanted)
    def _page_wanted(self, event: TranscriptView.Wanted) -> None:
        store = self.desk.pages.store(event.session)
        self.work(self.desk.pages.read(store, event.where, event.spot))

    @on(ChatPanel.Drafted)
    def _typed(self) -> None:
        self.set_timer(_SAVE, self._save_soon)

    @on(ChatInput.HelpWanted)
    def _help_wanted(self) -> None:
        self.action_help()

    @on(ChatPanel.Said)
    def _said(self, event: ChatPanel.Said) -> None:
        self.work(self.conversing.said(event.panel, event.text, steers=event.steers))

    @on(Picker.Chosen, "#inbox")
    def _request_chosen(self, event: Picker.Chosen) -> None:
        self.deciding.open(event.key)

    @on(AgentTable.Asked)
    def _asked_of_agent(self, event: AgentTable.Asked) -> None:
        self.work(self.do_to_agent(event.session, event.command))

    # Of screens that are imported when they are first shown.

    def on_permission_screen_put_off(self, event: "PermissionScreen.PutOff") -> None:
        """Leave a request open."""
        self.deciding.put_off(event.item)

    def on_question_screen_put_off(self, event: "QuestionScreen.PutOff") -> None:
        """Leave a question open."""
        self.deciding.put_off(event.item)

    def on_permission_screen_answered(self, event: "PermissionScreen.Answered") -> None:
        """Tell the fleet what was decided."""
        self.work(self._answer(event))

    def on_question_screen_filled(self, event: "QuestionScreen.Filled") -> None:
        """Keep what is filled in."""
        if self.deciding.keep(event.item, event.kept):
            self.set_timer(_SAVE, self._save_soon)

    def on_question_screen_replied(self, event: "QuestionScreen.Replied") -> None:
        """Tell the fleet the answer."""
        self.work(self._reply(event))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of the main screen do nothing while another is over it."""
        return action not in _MAIN_ONLY or len(self.screen_stack) == 1

    def on_text_selected(self) -> None:
        """Copy what was selected with the mouse."""
        if selected := self.screen.get_selected_text():
            self.copy_to_clipboard(selected)

    def action_help(self) -> None:
        """Show every key and command."""
        from .preferences.key_help import collect_key_help
        from .screens.help import HelpScreen

        self.push_screen(HelpScreen(collect_key_help(self)))

    def action_answer(self) -> None:
        """Show what waits for the person."""
        if not self.deciding.open_next():
            self.tell("no pending requests")

    def action_beside(self, step: int) -> None:
        """Show another agent."""
        session = self.desk.roster.beside(self.desk.shown, step)
        if session is not None:
            self.main.show_agent(session)

    def action_stop(self) -> None:
        """Copy what is selected; else end the turn of the agent in view, and of no other."""
        agent = self.desk.agent
        selected = self.screen.get_selected_text() or self.main.chat.selected_text
        if selected:
            self.copy_to_clipboard(selected)
        elif agent is not None and agent.state in ("running", "waiting"):
            self.work(self.steering.interrupt(agent))
        else:
            self.tell("nothing to interrupt; ctrl+q quits, agents keep running")

    def action_spawn(self) -> None:
        """Ask for a new agent."""
        self.work(self.conversing.spawn(self.main.panel))

    def action_unfold(self) -> None:
        """Unfold every tool call and thought, or fold them."""
        if (session := self.desk.focused) is not None:
            self._is_unfolded = not self._is_unfolded
            self.desk.pages.store(session).unfold_all(self._is_unfolded)

    def action_archived(self) -> None:
        """Show agents that are put away, or hide them."""
        self.desk.roster.show_archived(not self.desk.roster.shows_archived)

    def action_follow(self) -> None:
        """Go to the end of the transcript."""
        self.main.transcript.action_follow()

    def action_start_host(self) -> None:
        """Start the host if none is there."""
        self.feed.start_host()

    # How it is done

    def _selected(self) -> None:
        if self._seen != self.desk.shown:
            self._seen = self.desk.shown
            self.set_timer(_STAYED, self._offer)

    def _offer(self) -> None:
        """Show what the agent in view asks, unless the person is in the middle of something."""
        self.deciding.offer(is_typing=bool(self.main.chat.text) or self.is_typed_through)

    def _begin(self) -> None:
        if self._begun is not None:
            self._begun()
        self.restore_focus()
        self.run_worker(self.feed.run, name="feed")
        self.run_worker(self._attend, name="screen")
        self.work(self._look_around())

    async def _attend(self) -> None:
        from .remote_control.attach import attach_workbench

        await attach_workbench(self)

    async def _look_around(self) -> None:
        from .first_run import discover_and_ask_trust

        await discover_and_ask_trust(self)

    def on_trust_screen_answered(self, event: "TrustScreen.Answered") -> None:
        """Do what was decided about the workspace."""
        from .first_run import answer_trust

        self.work(answer_trust(self, event))

    def _look_for_terminal(self) -> None:
        """Leave when the terminal is gone: reading from it would then never rest."""
        if is_terminal_gone():
            self.exit(return_code=1)

    async def _answer(self, event: "PermissionScreen.Answered") -> None:
        if await self.steering.answer(event.item, event.choice, event.feedback):
            self.deciding.settled(event.item)

    async def _reply(self, event: "QuestionScreen.Replied") -> None:
        if await self.steering.reply(event.item, event.content):
            self.deciding.settled(event.item)

    def _save_soon(self) -> None:
        self.run_worker(self._save)

    async def _save(self) -> None:
        async with self._saving:
            try:
                await asyncio.to_thread(self.desk.drafts.flush)
            except OSError as error:
                self.tell(f"cannot save your draft: {error}", True)

    def _handle_exception(self, error: Exception) -> None:
        """End, and leave the report to who opened us: Textual's own shows private values."""
        if self.forgives(error):
            return
        self.crash = self.crash or error
        if self.is_headless:
            super()._handle_exception(error)
        else:
            self.exit(return_code=1)
