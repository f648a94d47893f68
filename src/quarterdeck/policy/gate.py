"""The gate of a session: policy decides first, then a person; it holds the pending requests.

A request is registered before its event is emitted, so that an answer can never come too early.
The caller that waits owns the request: when the caller is cancelled, so is the request, here and
nowhere else.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from quarterdeck.wire.clock import WaitTimer, read_wall_clock
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    Event,
    GrantRevoked,
    GrantUsed,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from quarterdeck.wire.ids import RequestId
from quarterdeck.wire.permissions import (
    Cancelled,
    Decider,
    PermissionOption,
    PermissionOutcome,
    QuestionAction,
    Selected,
)

from .call import Call, path_use
from .grants import GrantStore, applicable_rules
from .modes import NO_SANDBOX, Containment, Mode, SandboxState

if TYPE_CHECKING:
    from quarterdeck.wire.permissions import ApprovalRule

    from .approvers import ApproverPolicy
    from .decision import Allow, Ask, Deny
    from .permission_options import PermissionChoice
    from .rules import Rule

__all__ = [
    "NOBODY",
    "Emit",
    "Gate",
    "HookAdvice",
    "ParentGate",
    "PermissionAnswer",
    "PermissionGranted",
    "PermissionRefused",
    "QuestionReply",
]


Emit: TypeAlias = Callable[[Event], Awaitable[None]]

_log = logging.getLogger(__name__)
_LONG = 1000
"""Characters of a command beyond which it is judged in a thread."""
_LATE = Decider(kind="timeout", name="no answer in time")
NOBODY = Decider(kind="mode", name="no person can be asked")
"""Answers in place of a person where there is none."""


class PermissionGranted(Struct, frozen=True):
    """A call that may run."""

    option: str | None = None
    """The option that a person chose; None when policy decided."""
    containment: Containment = "none"
    """What its command has to run in, fixed when it was permitted."""


class PermissionRefused(Struct, frozen=True):
    """A call that may not run."""

    reason: str
    """For the log and the person."""
    model_reason: str
    """For the model."""
    option: str | None = None
    """The option that a person chose; None when policy decided or no one chose."""
    cancelled: bool = False
    """No one chose: the request was cancelled."""


class HookAdvice(Struct, frozen=True, kw_only=True):
    """The effect that a hook asks for, for one call."""

    effect: Literal["allow", "ask"]
    by: Decider
    reason: str


class PermissionAnswer(Struct, frozen=True, kw_only=True):
    """A person's answer to a permission request."""

    outcome: PermissionOutcome
    by: Decider
    feedback: str | None = None
    group: RequestId | None = None
    """The first of the requests that were answered together; None: this one alone."""
    approved_by: tuple[str, ...] = ()
    """The people who allowed it, by whoever knows for certain who they are."""


class QuestionReply(Struct, frozen=True, kw_only=True):
    """A person's answer to a question."""

    action: QuestionAction
    by: Decider
    content: dict[str, Any] | None = None


class ParentGate(Protocol):
    """What a gate asks that has no person of its own: the session that started this one.

    Cancelling either takes the request back.
    """

    async def leave(self, question: PermissionAsked) -> PermissionAnswer:
        """Ask for permission."""
        ...

    async def reply(self, question: QuestionAsked) -> QuestionReply:
        """Ask a question."""
        ...


class Gate(Struct, kw_only=True, eq=False):
    """Decides about the calls of one session and holds its open requests.

    Changing ``mode`` applies at once to every later call.
    """

    mode: Mode
    rules: "tuple[Rule, ...]" = ()
    grants: GrantStore = field(default_factory=GrantStore)
    sandbox: SandboxState = NO_SANDBOX
    find_sandbox: Callable[[], Awaitable[SandboxState]] | None = None
    """Says what ``sandbox`` is; asked once, before the first command is decided."""
    trusted: bool = True
    attended: bool = True
    """Whether a person can answer; if not, what would be asked is refused."""
    patience: float | None = None
    """Seconds that a request waits for its answer and is then refused; None: for ever."""
    refused_unattended: int = 0
    """How many calls were refused because no one was there."""
    pauses: WaitTimer = field(default_factory=WaitTimer)
    """How long people were waited for."""
    approvers: "tuple[ApproverPolicy, ...]" = ()
    """Which people have to allow which calls; where none does, the first answer counts."""
    above: ParentGate | None = None
    """Asked in place of a person; then only the answers are reported here."""
    find_leads: Callable[[], tuple[str, ...]] | None = None
    """Says which live sessions lead this one, itself included; None: no one does."""
    _permissions: dict[RequestId, asyncio.Future[PermissionAnswer]] = field(
        default_factory=dict[RequestId, "asyncio.Future[PermissionAnswer]"]
    )
    _questions: dict[RequestId, asyncio.Future[QuestionReply]] = field(
        default_factory=dict["RequestId", "asyncio.Future[QuestionReply]"]
    )

    async def permit(
        self,
        emit: Emit,
        question: PermissionAsked,
        call: Call,
        urge: HookAdvice | None = None,
        sandbox: SandboxState | None = None,
    ) -> PermissionGranted | PermissionRefused:
        """Decide about a call, asking if need be.

        ``urge``: the advice of a hook; it outranks neither a denial nor a rule that asks.
        ``sandbox``: what holds this call, where it is not what holds all others.

        ``question`` says how it would be asked. Where it has no options it gets ours; where an
        agent brought its own, our standing answers are added to them.
        """
        # What decides is imported with the first call: a turn of words alone needs none of it.
        from .decision import Allow, Ask, Deny, decider_of

        await self.grants.refresh()
        decision = await self._decide_soon(call, sandbox)
        if isinstance(decision, Allow) and (urge is None or urge.effect != "ask"):
            decision = await self._use_grants(decision, call, sandbox)
        # Of the mode now: until a person has answered it may be another.
        contained = self._contained(call, sandbox)
        match decision:
            case Allow() if urge is not None and urge.effect == "ask":
                options = self._options(call, question.options)
                ready = self._complete(question, call, options, urge.reason)
                return await self._ask_person(emit, ready, call, contained)
            case Ask(can_last=True) if urge is not None and urge.effect == "allow":
                await emit(_decided(question, urge.by, allow=True))
                return PermissionGranted(containment=contained)
            case Allow() as allowed:
                await _report_use(emit, question, allowed)
                await emit(_decided(question, decider_of(allowed), allow=True))
                return PermissionGranted(containment=allowed.containment)
            case Deny() as denied:
                await _report_use(emit, question, denied)
                await emit(_decided(question, decider_of(denied), allow=False))
                return PermissionRefused(denied.reason, f"This was not allowed: {denied.reason}.")
            case Ask() as asked:
                await _report_use(emit, question, asked)
                options = self._options(call, question.options)
                ready = self._complete(question, call, options, asked.reason)
                return await self._ask_person(emit, ready, call, contained)

    def _complete(
        self,
        question: PermissionAsked,
        call: Call,
        options: tuple[PermissionOption, ...],
        reason: str,
    ) -> PermissionAsked:
        """The question as it is put to a person."""
        return replace(question, options=options, reason=reason, approvals=self._approvals(call))

    def _approvals(self, call: Call | None) -> "tuple[ApprovalRule, ...]":
        if not self.approvers:
            return ()
        from .approvers import approvals_for

        return approvals_for(self.approvers, call)

    def _contained(self, call: Call, sandbox: SandboxState | None = None) -> Containment:
        """What a command runs in that a person, a rule or a hook allows.

        Full-auto was chosen for its sandbox: no answer takes a command out of it.
        """
        is_held = self.mode == "full-auto" and (sandbox or self.sandbox).in_force
        return "workspace" if is_held and call.command is not None else "none"

    def may_read(self, path: str, like: Call) -> bool:
        """Whether no rule forbids to read a file; for searches that walk a directory.

        ``like`` is a call of the same workspace. Quick where nothing is denied.
        """
        from .decision import Deny

        if not any(each.effect == "deny" for each in (*self.rules, *self.grants.all)):
            return True
        use = path_use(path, "read", cwd=like.cwd, home=like.home)
        return not isinstance(self._decide(replace(like, paths=(use,))), Deny)

    async def forbids(self, call: Call) -> str | None:
        """Why a call is denied whatever a person says; None if it is allowed or could be asked."""
        from .decision import Deny

        decision = await self.judge(call)
        return decision.reason if isinstance(decision, Deny) else None

    async def judge(self, call: Call) -> "Allow | Deny | Ask":
        """What rules, grants and mode say about a call; no one is asked, nothing is reported.

        A grant for so many calls allows none here, because none is counted.
        """
        await self.grants.refresh()
        counted = frozenset(one.id for one in self.grants.all if one.is_counted)
        return await self._decide_soon(call, without=counted)

    def granted_rules(
        self, *, project: str | None, session: str | None, agent: str | None
    ) -> "tuple[Rule, ...]":
        """The rules of the grants that hold for calls of this session."""
        now = read_wall_clock()
        found = applicable_rules(
            self.grants.current(now),
            project=project,
            session=session,
            agent=agent,
            leads=self._leads(),
            now=now,
        )
        return tuple(found)

    def _leads(self) -> tuple[str, ...]:
        if self.find_leads is None or all(one.tree is None for one in self.grants.all):
            return ()
        return self.find_leads()

    async def _use_grants(
        self, decision: "Allow", call: Call, sandbox: SandboxState | None
    ) -> "Allow | Deny | Ask":
        """Use the counted grants that allow a call; decide anew without those that are used up.

        What cannot be counted is not allowed by it.
        """
        from .decision import Allow, grants_behind

        without: frozenset[str] = frozenset()
        found: Allow | Deny | Ask = decision
        while isinstance(found, Allow) and (ids := grants_behind(found, counted=True)):
            try:
                gone = await self.grants.spend(ids, read_wall_clock())
            except (OSError, QuarterdeckError) as error:
                _log.warning("the use of grants %s cannot be counted: %s", ", ".join(ids), error)
                gone = frozenset(ids)
            if not gone:
                return found
            without |= gone
            found = await self._decide_soon(call, sandbox, without)
        return found

    async def revoke(self, emit: Emit, grant: str, by: Decider) -> bool:
        """Take a grant back at once; False if there is none of that id.

        One for the session is reported, so that it stays taken back when the session is loaded.
        """
        found = next((one for one in self.grants.all if one.id == grant), None)
        revoked = await self.grants.revoke(grant)
        if found is not None and found.scope == "session":
            await emit(GrantRevoked(grant=grant, by=by))
        return revoked

    def answer(self, request: RequestId, answer: PermissionAnswer) -> bool:
        """Answer a permission request; False if it is not, or no longer, open."""
        return _resolve(self._permissions.get(request), answer)

    def reply(self, request: RequestId, reply: QuestionReply) -> bool:
        """Answer a question; False if it is not, or no longer, open."""
        return _resolve(self._questions.get(request), reply)

    def cancel_open(self) -> None:
        """Answer everything that is open as cancelled, because its turn is."""
        by = Decider(kind="cancel")
        for permission in self._permissions.values():
            _resolve(permission, PermissionAnswer(outcome=Cancelled(), by=by))
        for question in self._questions.values():
            _resolve(question, QuestionReply(action="cancel", by=by))

    async def ask(self, emit: Emit, question: QuestionAsked) -> QuestionAnswered:
        """Ask the person something; returns when it is answered, declined or cancelled."""
        request = question.request
        try:
            reply = await self._replied(emit, question)
        except asyncio.CancelledError:
            by = Decider(kind="cancel")
            await emit(QuestionAnswered(request=request, action="cancel", by=by))
            raise
        answered = QuestionAnswered(
            request=request, action=reply.action, by=reply.by, content=reply.content
        )
        await emit(answered)
        return answered

    async def _replied(self, emit: Emit, question: QuestionAsked) -> QuestionReply:
        if self.above is not None:
            return await self.above.reply(question)
        request = question.request
        waiting = self._questions[request] = asyncio.get_running_loop().create_future()
        try:
            await emit(question)
            if not self.attended:
                _resolve(waiting, QuestionReply(action="cancel", by=NOBODY))
            with self.pauses, self._limited(waiting, QuestionReply(action="cancel", by=_LATE)):
                return await waiting
        finally:
            del self._questions[request]

    async def leave(self, emit: Emit, question: PermissionAsked) -> PermissionAnswer:
        """Put a request to the person as it is, and record both; policy is not consulted.

        What needs certain people is not allowed by others, whoever passes their answer on.
        """
        if not question.approvals and self.approvers:
            question = replace(question, approvals=self._approvals(None))
        try:
            answer = await self._answer(emit, question)
        except asyncio.CancelledError:
            await emit(
                _answered(
                    question, PermissionAnswer(outcome=Cancelled(), by=Decider(kind="cancel"))
                )
            )
            raise
        if question.approvals:
            answer = _check_approved(question, answer)
        await emit(_answered(question, answer))
        return answer

    async def _answer(self, emit: Emit, question: PermissionAsked) -> PermissionAnswer:
        if self.above is not None:
            return await self.above.leave(question)
        request = question.request
        waiting = self._permissions[request] = asyncio.get_running_loop().create_future()
        try:
            await emit(question)
            if not self.attended:
                self.refused_unattended += 1
                _resolve(waiting, PermissionAnswer(outcome=Cancelled(), by=NOBODY))
            with (
                self.pauses,
                self._limited(waiting, PermissionAnswer(outcome=Cancelled(), by=_LATE)),
            ):
                return await waiting
        finally:
            del self._permissions[request]

    @contextmanager
    def _limited(self, waiting: "asyncio.Future[Any]", late: object) -> Generator[None]:
        """Answer by this when patience runs out."""
        if self.patience is None:
            yield
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self.patience, _resolve, waiting, late)
        try:
            yield
        finally:
            timer.cancel()

    async def _ask_person(
        self, emit: Emit, question: PermissionAsked, call: Call, contained: Containment
    ) -> PermissionGranted | PermissionRefused:
        answer = await self.leave(emit, question)
        if isinstance(answer.outcome, Cancelled):
            why = answer.by.name or "the request was cancelled"
            # To an agent a cancelled request means that its turn is cancelled.
            is_cancelled = answer.by not in (NOBODY, _LATE) and answer.by.kind != "rule"
            text = f"This needs a person's permission, and {why}."
            return PermissionRefused(why, text, cancelled=is_cancelled)
        from .permission_options import choice_of

        option = answer.outcome.option_id
        choice = choice_of(question.options, option)
        await self._remember(emit, choice, call, question, answer)
        if choice.effect == "allow":
            if contained == "none":  # the mode may have become full-auto while it was asked
                contained = self._contained(call)
            return PermissionGranted(option, contained)
        text = "The person denied this call."
        if answer.feedback:
            text += f" They said: {answer.feedback}"
        return PermissionRefused(answer.feedback or "denied by the person", text, option)

    async def _remember(
        self,
        emit: Emit,
        choice: "PermissionChoice",
        call: Call,
        question: PermissionAsked,
        answer: PermissionAnswer,
    ) -> None:
        """Keep a standing answer; one that cannot be kept holds for this call, and is reported."""
        from .permission_options import grants_of

        grants = grants_of(
            choice,
            call,
            by=answer.by.name or answer.by.kind,
            now=read_wall_clock(),
            request=question.request,
            reason=answer.feedback,
        )
        try:
            await self.grants.add(grants)
        except (OSError, QuarterdeckError) as error:
            title = "The answer applies to this call only: it could not be saved."
            await emit(NoticePosted(title=title, severity="warning", description=str(error)))

    async def _decide_soon(
        self,
        call: Call,
        sandbox: SandboxState | None = None,
        without: frozenset[str] = frozenset(),
    ) -> "Allow | Deny | Ask":
        if call.command is not None and self.find_sandbox is not None:
            self.sandbox = await self.find_sandbox()
            self.find_sandbox = None
        # A long command line can take the parser most of a second.
        if len(call.command or "") > _LONG:
            return await asyncio.to_thread(self._decide, call, sandbox, without)
        return self._decide(call, sandbox, without)

    def _decide(
        self,
        call: Call,
        sandbox: SandboxState | None = None,
        without: frozenset[str] = frozenset(),
    ) -> "Allow | Deny | Ask":
        from .decision import decide

        now = read_wall_clock()
        return decide(
            replace(call, leads=self._leads()),
            self.mode,
            self.rules,
            [one for one in self.grants.current(now) if one.id not in without],
            sandbox=sandbox if sandbox is not None else self.sandbox,
            trusted=self.trusted,
            now=now,
        )

    def _options(
        self, call: Call, theirs: tuple[PermissionOption, ...]
    ) -> tuple[PermissionOption, ...]:
        from .permission_options import options_for, suggest_grants, suggest_refusal

        grants = self.grants.current(read_wall_clock())
        call = replace(call, leads=self._leads())
        offers = suggest_grants(
            call,
            self.mode,
            self.rules,
            grants,
            sandbox=self.sandbox,
            trusted=self.trusted,
            now=read_wall_clock(),
        )
        never = suggest_refusal(call, self.mode, self.rules, grants)
        ours = options_for(offers, refusal=never, project=call.project is not None, call=call)
        if not theirs:
            return ours
        taken = {option.option_id for option in theirs}
        lasting_options = [
            o for o in ours if o.kind.endswith("_always") and o.option_id not in taken
        ]
        # The one who says "always" means ours: what the agent itself remembers we cannot take back.
        once = [o for o in theirs if not o.kind.endswith("_always")]
        lasting = [o for o in theirs if o.kind.endswith("_always")]
        return (*once, *lasting_options, *lasting)


def _resolve(waiting: "asyncio.Future[Any] | None", value: object) -> bool:
    if waiting is None or waiting.done():
        return False
    waiting.set_result(value)
    return True


async def _report_use(
    emit: Emit, question: PermissionAsked, decision: "Allow | Deny | Ask"
) -> None:
    """Write which grants had a part in a decision, before it."""
    from .decision import grants_behind

    if grants := tuple(dict.fromkeys(grants_behind(decision))):
        await emit(GrantUsed(request=question.request, call=question.call, grants=grants))


def _decided(question: PermissionAsked, by: Decider, *, allow: bool) -> PermissionAnswered:
    return PermissionAnswered(
        request=question.request,
        call=question.call,
        outcome=Selected(option_id="allow" if allow else "deny"),
        by=by,
        kind="allow_once" if allow else "reject_once",
    )


def _answered(question: PermissionAsked, answer: PermissionAnswer) -> PermissionAnswered:
    kind = None
    if isinstance(answer.outcome, Selected):
        chosen = answer.outcome.option_id
        kind = next((o.kind for o in question.options if o.option_id == chosen), None)
    return PermissionAnswered(
        request=question.request,
        call=question.call,
        outcome=answer.outcome,
        by=answer.by,
        kind=kind,
        feedback=answer.feedback,
        group=answer.group,
    )


def _check_approved(question: PermissionAsked, answer: PermissionAnswer) -> PermissionAnswer:
    """The answer, or a refusal where not enough of the right people allowed the call."""
    from .approvers import is_approved, list_approvers
    from .permission_options import choice_of

    if not isinstance(answer.outcome, Selected):
        return answer
    choice = choice_of(question.options, answer.outcome.option_id)
    if choice.effect != "allow" or is_approved(question.approvals, answer.approved_by):
        return answer
    people = ", ".join(list_approvers(question.approvals))
    by = Decider(kind="rule", name=f"only certain people can allow it at the host: {people}")
    return PermissionAnswer(outcome=Cancelled(), by=by)
