"""The form of a plan file. The text under each field is its reference.

Every field has a default, so that a check finds all problems of a file and not only the first;
what must be there is said by ``plan.check_plan``.
"""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import field

from quarterdeck.config.setting_types import Count, Days, Retries, Seconds
from quarterdeck.wire.settings import Effort, PermissionMode
from quarterdeck.wire.values import Value
from quarterdeck.wire.worktrees import LandingMethod

__all__ = [
    "PLAN_VERSION",
    "RANK_RULES",
    "CheckFields",
    "EndAction",
    "InputFields",
    "LimitFields",
    "OptionFields",
    "PickRule",
    "PlanFields",
    "RaceFields",
    "TaskFields",
    "make_plan_schema",
]

PLAN_VERSION = 1
EndAction: TypeAlias = Literal["keep", "land", "pull request"]
"""What happens with the work of a task: it stays in its worktree, it is put on a branch, or a pull
request is opened for it."""
PickRule: TypeAlias = Literal["first", "best", "judge"]
"""Which contender wins: the first that passes its checks, the best of all by rank, or the one that
another agent chooses."""
RANK_RULES = ("checks", "diff", "cost", "time")
"""What contenders can be compared by."""


class InputFields(Value, frozen=True, kw_only=True):
    """A value that a plan is run with."""

    default: str | None = None
    """Without one, it must be given: ``--input NAME=VALUE``."""
    text: str = ""
    """What it is for."""


class LimitFields(Value, frozen=True, kw_only=True):
    """Where a turn is ended; the fields of ``SessionLimits``."""

    model_calls: int | None = None
    tokens: int | None = None
    """Input and output together."""
    cost: float | None = None
    """US dollars."""
    seconds: float | None = None


class OptionFields(Value, frozen=True, kw_only=True):
    """How the sessions of a task are started; the fields of ``SessionOptions``."""

    transport: str | None = None
    """How the agent is reached; without it, the first that starts."""
    model: str | None = None
    """The model, by the agent's own name for it."""
    effort: Effort | None = None
    """How much the model thinks."""
    mode: PermissionMode | None = None
    """What may be done without asking."""
    agent_mode: str | None = None
    """A mode of the agent's own."""
    allow: tuple[str, ...] = ()
    """Rules that allow calls."""
    deny: tuple[str, ...] = ()
    """Rules that deny calls; they win over every allow."""
    tools: tuple[str, ...] | None = None
    """Offer only these tools."""
    denied_tools: tuple[str, ...] = ()
    """Do not offer these tools."""
    roots: tuple[str, ...] = ()
    """Further directories to work in, relative to the plan's directory."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    """Variables for the agent. Not a place for keys: agents use their own logins."""
    system_prompt: str | None = None
    """Added to the agent's system prompt. A template."""
    limits: LimitFields = LimitFields()


class CheckFields(Value, frozen=True, kw_only=True):
    """A command that must succeed after a turn."""

    run: str = ""
    """A line of the shell, run in the directory of the agent. A template of inputs, each quoted
    for the shell."""
    name: str = ""
    """For people; without it, the command."""
    exit_code: int = 0
    """The exit code that means success."""
    timeout: Seconds = 600.0
    """Seconds after which the command is ended, with all that it started; the check has failed
    then."""
    junit: str = ""
    """A JUnit report that the command writes, relative to the directory of the agent. A test that
    failed in it is a failed check, whatever the exit code; one that is missing too."""


class RaceFields(Value, frozen=True, kw_only=True):
    """The same task for several agents."""

    agents: tuple[str, ...] = ()
    """The agents, at least two; one that is named twice runs twice."""
    pick: PickRule = "best"
    """Who wins."""
    rank: tuple[str, ...] = ("checks", "diff", "cost")
    """With ``best``: what is compared, the first before the second: ``checks`` (most passed),
    ``diff`` (smallest change), ``cost`` (lowest), ``time`` (shortest)."""
    judge: str | None = None
    """With ``judge``: the agent that chooses."""


class TaskFields(Value, frozen=True, kw_only=True):
    """One piece of work."""

    text: str = ""
    """What it is for, for people."""
    agent: str | None = None
    """The agent; without it, that of the plan."""
    prompt: str = ""
    """What the agent is asked to do. A template."""
    prompt_file: str | None = None
    """A file with the prompt, relative to the plan's file; instead of ``prompt``."""
    needs: tuple[str, ...] = ()
    """Tasks that must succeed before this one begins."""
    options: OptionFields = OptionFields()
    worktree: bool = True
    """Work in a git worktree of its own."""
    base: str | None = None
    """The branch, tag or commit that the worktree starts from; without it, what is checked out. A
    template of inputs."""
    labels: tuple[str, ...] = ()
    """In a pool: what a worker must have, such as ``gpu``."""
    budget: tuple[str, ...] = ()
    """What each agent of the task may use: ``5usd``, ``200ktok``, ``50calls``, ``30min``."""
    checks: tuple[CheckFields, ...] = ()
    """Commands that must succeed after each turn."""
    retries: Retries = 0
    """How often the agent may try again after a failed check, in the same session."""
    retry_message: str = "The check {{check.name}} failed: {{check.reason}}.\n\n{{check.output}}"
    """What the agent is sent after a failed check. A template; ``check.name``, ``check.reason``
    and ``check.output`` are those of the first check that failed."""
    gate: bool = False
    """Wait for a person's approval after the checks, before the work ends as ``end`` says."""
    end: EndAction = "keep"
    """What happens with the work."""
    into: str | None = None
    """With ``land`` and ``pull request``: the branch; without it, the one that the worktree started
    from. A template of inputs."""
    remote: str | None = None
    """With ``pull request``: the remote that the work is pushed to; without it, ``origin``, or the
    only one."""
    checkout: bool = False
    """With ``land``: also update the files of the checkout that has the branch, if it is clean.
    Without it, a branch that is checked out somewhere is not moved."""
    method: LandingMethod | None = None
    """With ``land`` and ``pull request``: how; without it, the setting ``landing.method``."""
    matrix: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Inputs and their values: the task runs once for each combination."""
    race: RaceFields = RaceFields()

    @property
    def is_race(self) -> bool:
        """Whether several agents do it."""
        return bool(self.race.agents)


class PlanFields(Value, frozen=True, kw_only=True):
    """A plan."""

    version: int = PLAN_VERSION
    """Of this format."""
    name: str = ""
    """Without one, that of the file."""
    text: str = ""
    """What it is for, for people."""
    directory: str = "."
    """Where agents work, relative to the file."""
    agent: str | None = None
    """The agent of tasks that name none."""
    at_once: Count = 8
    """How many agents of the plan work at the same time."""
    remote: str | None = None
    """In a pool: the git remote by which files travel, by its name or address; without it,
    ``origin``."""
    carry_ignored: bool = False
    """In a pool: let the ignored files that ``.worktreeinclude`` lists travel too. They go through
    the git remote, where everyone with access to it can read them: mind what is secret."""
    keep_days: Days = 7.0
    """In a pool: how many days after its end the files of a run stay at the git remote, and its
    session files in the pool. 0: they go at once."""
    inputs: dict[str, InputFields] = field(default_factory=dict[str, InputFields])
    tasks: dict[str, TaskFields] = field(default_factory=dict[str, TaskFields])


def make_plan_schema() -> dict[str, Any]:
    """The JSON schema of a plan file, for editors and other programs."""
    about = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A plan of Quarterdeck",
    }
    # By way of JSON, which has no tuples.
    return msgspec.json.decode(msgspec.json.encode({**about, **msgspec.json.schema(PlanFields)}))
