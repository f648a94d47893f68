"""The application: passes what the fleet reports to the stores, and what a person does to the
fleet.
"""

import asyncio
import select
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from textual import events, on
from textual.app import App
from textual.binding import BindingType
from textual.message import Message
from textual.notifications import Notify
from textual.screen import Screen

from quarterdeck.wire.errors import QuarterdeckError

from .approvals import RequestPresenter
from .commands.runner import CommandQueue, CommandRunner
from .context import WorkbenchContext
from .custom_widgets.kinds import all_kinds, blame_custom_widget, guard_custom_widgets
from .drafts import DraftSaver
from .feed import ReachHost, WorkbenchFeed
from .first_run import FirstRun
from .fleet_actions import FleetActions, ShowMessage
from .frame_diff import FrameDiff
from .keyboard import MAIN_SCREEN_ACTIONS, WORKBENCH_BINDINGS, KeyDispatcher
from .layout.edit import ResizeDirection
from .layout.view import LayoutView
from .panels.chat import ChatPanel
from .panels.panel import Panel
from .preferences.themes.apply import AppTheme
from .prompt_sender import PromptSender
from .remote_control.api import ScreenCallSpec, ScreenController
from .sanitize import sanitize_text
from .textual_fixes import use_reliable_textual
from .widgets.agent_table import AgentTable
from .widgets.chat_input import ChatInput
from .widgets.picker import Picker
from .widgets.transcript import TranscriptView
from .workspace.store import OpenWorkspace, WorkspaceStore

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.widget import Widget

    from quarterdeck.wire.ids import SessionId

    from .host_feeds import HostFeeds
    from .layout.files import LayoutFiles
    from .screens.main import MainScreen
    from .screens.permission import PermissionCard
    from .screens.question import QuestionForm
    from .screens.trust import TrustScreen

    RequestPutOff: TypeAlias = PermissionCard.PutOff | QuestionForm.PutOff

__all__ = ["Workbench", "exit_on_signals", "is_terminal_gone"]


_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def is_terminal_gone() -> bool:
    """Whether the terminal of our input is gone. Does not wait."""
    try:
        watch = select.poll()
        watch.register(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0, select.POLLIN)
        return any(event & (select.POLLHUP | select.POLLNVAL) for _, event in watch.poll(0))
    except (OSError, ValueError):
        return True


def exit_on_signals(on_exit: Callable[[int], None]) -> None:
    """Leave in good order when asked to end: the one who just dies leaves the terminal as it was
    drawn.

    ``on_exit`` gets the exit code that a shell gives for the signal.
    """
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, on_exit, 128 + number)


_LOOK = 2.0
"""Seconds between two looks whether the terminal is still there."""


def _load_screen_calls() -> Mapping[str, ScreenCallSpec]:
    from .remote_control.calls import SCREEN_CALLS

    return SCREEN_CALLS


def _make_feed(
    context: WorkbenchContext,
    reach: ReachHost,
    post: Callable[[Message], object],
    show_message: ShowMessage,
) -> "WorkbenchFeed | HostFeeds":
    if context.hosts is None:
        return WorkbenchFeed(context.fleet, reach, post, context.budgets)
    from .host_feeds import HostFeeds

    return HostFeeds(context.hosts, post, context.budgets, show_message)


class Workbench(App[None]):
    """Agents, their transcripts, and their requests; quitting it ends no agent.

    It connects its parts: messages and actions of Textual arrive here, and a part handles them.

    Args:
        context: the fleet and what is known of it. Reads files, so that making a workbench blocks.
        reach: how the fleet is reached; see ``WorkbenchFeed``.
        on_exit: called at the end.
        on_first_frame: called when the first frame is on the screen.
    """

    CSS_PATH = "workbench.tcss"
    TITLE = "quarterdeck"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (17, "-tall")]  # noqa: RUF012 - as Textual has it
    BINDINGS: ClassVar[list[BindingType]] = WORKBENCH_BINDINGS

    def __init__(
        self,
        context: WorkbenchContext,
        reach: ReachHost,
        on_exit: Callable[[], Awaitable[None]] | None = None,
        on_first_frame: Callable[[], None] | None = None,
    ) -> None:
        use_reliable_textual()
        super().__init__()
        self._frames = FrameDiff()
        self.animation_level = "none"
        self.context = context
        self.preferences = preferences = context.preferences
        self._on_exit, self._on_first_frame = on_exit, on_first_frame or (lambda: None)
        self.crash: Exception | None = None
        """What ended it, if it was not a person."""
        self.theme_control = AppTheme(self, preferences)
        self.kinds = all_kinds(context)
        """The widgets that layouts can name: built in, and custom."""
        self._store = WorkspaceStore(context.discovery.places)
        self.workspace = OpenWorkspace(self, context, self.kinds, self._store, self.show_message)
        """What is open, saved and restored."""
        preferences.problems += [self.workspace.notice] if self.workspace.notice else []
        self.feed = _make_feed(context, reach, self.post_message, self.show_message)
        self.fleet_actions = FleetActions(context, self.show_message, self.feed.refresh)
        self.queue = CommandQueue(self.work)
        self.commands = CommandRunner(
            self, context, self.fleet_actions, queue=self.queue, show_message=self.show_message
        )
        self.keyboard = KeyDispatcher(self, preferences, self.commands.run_named)
        self.requests = RequestPresenter(
            self, lambda: self.main, lambda: self.is_typed_through, context, self.fleet_actions
        )
        self._draft_saver = DraftSaver(self, context.drafts, self.show_message)
        self.prompts = PromptSender(
            self,
            context,
            self.fleet_actions,
            queue=self.queue,
            run_command=self.commands.run,
            save=self._draft_saver.save,
        )
        self.screen_controller = ScreenController(self, _load_screen_calls)
        self.first_run = FirstRun(
            self, context, self._store, run_command=self.run_command, show_message=self.show_message
        )
        self._pending: set[Coroutine[Any, Any, object]] = set()
        """What was given to be run and has not started."""

    @property
    def main(self) -> "MainScreen":
        """The screen below all others."""
        return self.workspace.main

    @property
    def layouts(self) -> "LayoutFiles":
        """The layouts on disk."""
        return self._store.layouts

    @property
    def is_typed_through(self) -> bool:
        """Whether keys go to a terminal."""
        return self.keyboard.is_typed_through

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Write to the terminal only what has changed there."""
        cast("Any", super())._display(screen, self._frames.reduce(renderable))

    def get_default_screen(self) -> Screen[None]:
        """The screen below all others."""
        return self.main

    def on_mount(self) -> None:
        """Show the first frame; the rest follows it."""
        self.theme_control.ask_background()
        self.call_after_refresh(self._begin)
        self.call_after_refresh(self.theme_control.finish)
        self.context.watch(self.requests.look)
        if not self.is_headless:
            self.set_interval(_LOOK, self._look_for_terminal)
            exit_on_signals(lambda code: self.exit(return_code=code))

    def _begin(self) -> None:
        self._on_first_frame()
        self.workspace.finish_first_frame()
        self.run_worker(self.feed.run, name="feed")
        self.run_worker(self._attend, name="screen")
        self.work(self.keyboard.load_choice(self.context.discovery))
        self.work(self.first_run.discover())

    async def _attend(self) -> None:
        """Let agents that lead use this workbench."""
        from .remote_control.attach import WorkbenchAttachment

        attached = WorkbenchAttachment(self, self.context, self.screen_controller.call)
        self.keyboard.on_use = attached.used
        await attached.run()

    def _look_for_terminal(self) -> None:
        """Quit when the terminal is gone: reading from it would then never rest."""
        if is_terminal_gone():
            self.exit(return_code=1)

    def exit(self, *given: Any, **named: Any) -> None:
        """Quit; panels are asked now what to remember, as they are removed first."""
        self.workspace.capture_panels()
        super().exit(*given, **named)

    async def on_unmount(self) -> None:
        """Save what was typed and what is open; what was about to start does not."""
        await self._draft_saver.close()
        for coroutine in self._pending:
            coroutine.close()
        await self.workspace.save()
        if self._on_exit is not None:
            await self._on_exit()

    def _handle_exception(self, error: Exception) -> None:
        """End, and let the caller report: Textual's own report shows private values."""
        if blame_custom_widget(error):
            return
        inner = getattr(error, "error", None)  # a worker's failure wraps what was raised
        self.crash = self.crash or (inner if isinstance(inner, Exception) else error)
        if self.is_headless:
            super()._handle_exception(error)
        else:
            self.exit(return_code=1)

    def _register(self, parent: "DOMNode", *widgets: "Widget", **how: Any) -> "list[Widget]":
        registered = cast("Any", super())._register(parent, *widgets, **how)
        guard_custom_widgets(parent, widgets)
        return registered

    def show_message(self, words: str, is_bad: bool = False) -> None:
        """Show a line for some time."""
        severity = "error" if is_bad else "information"
        self.notify(
            sanitize_text(words), severity=severity, timeout=8 if is_bad else 3, markup=False
        )

    def work(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run something in the background; an error of ours is shown."""
        self._pending.add(coroutine)
        self.run_worker(partial(self._work, coroutine))

    async def _work(self, coroutine: Coroutine[Any, Any, object]) -> None:
        self._pending.discard(coroutine)
        try:
            await coroutine
        except QuarterdeckError as error:
            self.show_message(str(error), True)

    async def push_screen_wait(self, *given: Any, **named: Any) -> Any:
        """Show a screen and wait for its result; the next command does not wait for that."""
        self.queue.pass_on()
        return await super().push_screen_wait(*given, **named)

    async def run_command(self, name: str, words: str) -> None:
        """Run a command that has a function, and wait for it. Raises QuarterdeckError."""
        await self.commands.call(name, words)

    async def show_agent(self, session: "SessionId", seq: int | None = None) -> None:
        """Go to the chat of an agent."""
        await self.workspace.show_agent(session, seq)

    async def move(self, cwd: str, *, force: bool = False) -> None:
        """Go to another directory: what was open there is shown; agents keep running.

        Raises:
            UnsavedPanelsError: something would be lost; nothing has changed.
        """
        from .preferences.store import load_preferences

        await self.workspace.move(cwd, force=force)
        discovery = self.context.discovery
        if discovery.places is not None:
            found = await asyncio.to_thread(
                load_preferences, discovery.places, cwd, discovery.environment
            )
            self.theme_control.change_directory(found)

    # What the fleet reports

    @on(WorkbenchFeed.HostChanged)
    def _host_changed(self, event: WorkbenchFeed.HostChanged) -> None:
        self.main.show_host(event.state, event.reason)

    @on(WorkbenchFeed.Known)
    def _known(self, event: WorkbenchFeed.Known) -> None:
        self.context.roster.replace(event.agents, event.status)
        self.context.inbox.replace(event.inbox)
        self.workspace.restore_selected()
        self.requests.check()
        self.requests.offer()

    @on(WorkbenchFeed.Happened)
    def _happened(self, event: WorkbenchFeed.Happened) -> None:
        self.context.roster.take(event.records)
        self.context.pages.live(event.records)
        self.context.publish_records(event.records)
        self.feed.ready()

    # What widgets report

    async def on_event(self, event: events.Event) -> None:
        """Handle keys of terminals and the person's own keys first."""
        if not self.keyboard.take(event):
            await super().on_event(event)

    @on(TranscriptView.Wanted)
    def _page_wanted(self, event: TranscriptView.Wanted) -> None:
        store = self.context.pages.store(event.session)
        self.work(self.context.pages.read(store, event.where, event.spot))

    @on(ChatPanel.Drafted)
    def _typed(self) -> None:
        self._draft_saver.save_soon()

    @on(ChatPanel.PromptSubmitted)
    def _prompt_submitted(self, event: ChatPanel.PromptSubmitted) -> None:
        self.prompts.submit(event.panel, event.text, steers=event.steers)

    @on(Picker.Chosen, "#inbox")
    def _request_chosen(self, event: Picker.Chosen) -> None:
        self.requests.open(event.key)

    @on(AgentTable.CommandWanted)
    def _agent_command_wanted(self, event: AgentTable.CommandWanted) -> None:
        self.queue.add(partial(self.commands.call_for_agent, event.session, event.command))

    @on(Panel.Altered)
    @on(LayoutView.Changed)
    def _layout_changed(self) -> None:
        self.workspace.save_soon()

    @on(LayoutView.TabWanted)
    def _tab_wanted(self) -> None:
        self.work(self.screen_controller.call("open_tab", {}))

    @on(LayoutView.TabClosed)
    def _tab_closed(self, event: LayoutView.TabClosed) -> None:
        self.commands.run_named("tab", f"close {event.tab + 1}")

    @on(Panel.FileWanted)
    def _file_wanted(self, event: Panel.FileWanted) -> None:
        arguments = {"path": event.path, "line": event.line, "how": event.how}
        self.work(self.screen_controller.call("open_file", arguments))

    @on(Panel.CommandWanted)
    def _command_wanted(self, event: Panel.CommandWanted) -> None:
        self.commands.run_named(event.command, event.words)

    @on(Panel.AgentWanted)
    def _agent_wanted(self, event: Panel.AgentWanted) -> None:
        self.work(self.show_agent(event.session, event.seq))

    def on_text_selected(self) -> None:
        """Copy what was selected with the mouse."""
        if selected := self.screen.get_selected_text():
            self.copy_to_clipboard(selected)

    # What screens report that are imported when they are first shown

    def on_permission_card_put_off(self, event: "RequestPutOff") -> None:
        """Keep a request or a question open."""
        self.requests.put_off(event.item)

    on_question_form_put_off = on_permission_card_put_off

    def on_permission_card_answered(self, event: "PermissionCard.Answered") -> None:
        """Send the decision to the fleet."""
        self.work(self.requests.answer(event))

    def on_chat_panel_request_crowded(self, event: "ChatPanel.RequestCrowded") -> None:
        """Bring up elsewhere what has no room in its chat any more."""
        self.requests.move(event.item)

    def on_question_form_filled(self, event: "QuestionForm.Filled") -> None:
        """Keep what is filled in."""
        if self.requests.keep(event.item, event.saved):
            self._draft_saver.save_soon()

    def on_question_form_replied(self, event: "QuestionForm.Replied") -> None:
        """Send the answer to the fleet."""
        self.work(self.requests.reply(event))

    def on_trust_screen_answered(self, event: "TrustScreen.Answered") -> None:
        """Carry out what was decided about the workspace."""
        self.work(self.first_run.answer_trust(event))

    # Keys and commands

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of the main screen do nothing while another is over it."""
        return action not in MAIN_SCREEN_ACTIONS or len(self.screen_stack) == 1

    def action_command_palette(self) -> None:
        """Show every command."""
        self.work(self.commands.choose())

    def on_notify(self, event: Notify) -> None:
        """Keep what is shown for a while, and show it behind the sign of what it is."""
        event.notification.message = self.context.notices.add(event.notification)

    def action_command(self, name: str, words: str = "") -> None:
        """Run a command by its name; keys are bound to this."""
        self.commands.run_named(name, words)

    @on(ChatInput.HelpWanted)
    def action_help(self) -> None:
        """Show every key and command."""
        from .screens.help import HelpScreen, collect_key_help

        self.push_screen(HelpScreen(collect_key_help(self.preferences, self.main)))

    def action_answer(self) -> None:
        """Show what waits for the person."""
        if not self.requests.open_next():
            self.show_message("no pending requests")

    def action_beside(self, step: int) -> None:
        """Show another agent."""
        self.workspace.go_beside(step)

    def action_agent(self, number: int) -> None:
        """Show an agent by its number in the list; the home screen has numbers of its own."""
        self.workspace.go_to_number(number)

    def action_stop(self) -> None:
        """Copy what is selected; else end the person's command or the turn of the agent in view."""
        agent = self.context.agent
        if selected := self.screen.get_selected_text() or self.main.chat.selected_text:
            self.copy_to_clipboard(selected)
        elif (command := self.context.find_running_command()) is not None:
            self.work(self.context.fleet.end_command(command))
        elif agent is not None and agent.state in ("running", "waiting"):
            self.queue.add(partial(self.fleet_actions.interrupt, agent))
        else:
            self.show_message("nothing to interrupt; ctrl+q quits, agents keep running")

    def action_spawn(self) -> None:
        """Ask for a new agent."""
        self.queue.add(partial(self.prompts.spawn, self.main.panel))

    def action_unfold(self) -> None:
        """Unfold every tool call and thought, or fold them."""
        if (session := self.context.focused) is not None:
            self.context.pages.toggle_folds(session)

    def action_archived(self) -> None:
        """Show archived agents, or hide them."""
        self.context.roster.show_archived(not self.context.roster.shows_archived)

    def action_follow(self) -> None:
        """Go to the end of the transcript."""
        self.main.transcript.action_follow()

    def action_start_host(self) -> None:
        """Start the host if none is there."""
        self.feed.start_host()

    def action_cycle(self, step: int) -> None:
        """Focus the next panel."""
        self.main.view.cycle(step)

    def action_tab(self, step: int) -> None:
        """Show the next tab."""
        self.work(self.main.view.show_tab(self.main.view.tab + step))

    def action_resize(self, way: ResizeDirection) -> None:
        """Move the line beside the panel with the focus."""
        self.work(self.main.view.resize_panel(way))

    def action_go(self, place: str) -> None:
        """Move the focus to a panel of a kind, or back to the input."""
        if place == "transcript":
            self.main.toggle_transcript_focus()
        elif not self.main.focus_kind(place, self.work):
            self.show_message(f"no {place} panel is open; /open {place} opens one", True)
