"""The engine on DBOS, with SQLite: a plan, a task, a contender and an attempt are workflows.

Each run has a database of its own, so that no process takes up the workflows of another run. A
workflow may be executed several times, each time with the results of the steps that are done; so
the steps that it calls must follow from those results alone. Waiting for memory of this process
(a free slot) is no step and changes no order.
"""

import logging
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

from .conduct import PlanConduct
from .workflow import ChildHandle, Plain, TaskWorkflow, to_plain

__all__ = ["DbosEngine"]

_VERSION = "plans-1"
"""Of the order of steps; another one would not take up runs of this one."""
_ATTEMPTS = 1_000_000
"""How often a workflow may be taken up again."""
_POLL = 0.2


class DbosEngine:
    """Runs the workflows of one run in this process."""

    def __init__(self, database: Path) -> None:
        self._url = f"sqlite:///{database}"

    async def execute(self, conduct: PlanConduct) -> None:
        """See ``PlanEngine``."""
        logging.getLogger("dbos").setLevel(logging.ERROR)
        workflows = _Workflows(conduct)
        config: DBOSConfig = {
            "name": "quarterdeck-plans",
            "system_database_url": self._url,
            "application_version": _VERSION,
            "executor_id": "runner",
            "log_level": "ERROR",
            "console_log_level": "ERROR",
            "enable_otlp": False,
            "notification_listener_polling_interval_sec": _POLL,
        }
        DBOS(config=config)
        workflows.register()
        DBOS.launch()
        with SetWorkflowID(conduct.run.info.id):
            handle = await DBOS.start_workflow_async(workflows.run_plan)
        await handle.get_result(polling_interval_sec=_POLL)


class _Workflows:
    """The workflows, bound to the conduct of this process."""

    def __init__(self, conduct: PlanConduct) -> None:
        self._conduct = conduct
        self._course = TaskWorkflow(conduct, self)
        self._id = conduct.run.info.id
        self.run_plan: Any = None
        self._kinds: dict[str, Any] = {}

    def register(self) -> None:
        """Make them known to the engine, by names that never change."""

        def make(name: str, work: Any) -> Any:
            return DBOS.workflow(name=name, max_recovery_attempts=_ATTEMPTS)(work)

        async def plan() -> None:
            await self._plan()

        async def task(key: str) -> str:
            return await self._course.run_task(key)

        async def contender(brief: Plain, name: Plain) -> Plain:
            async with self._conduct.slots:
                return await self._course.run_contender(brief, name)

        async def attempt(brief: Plain, name: Plain, number: int, last: Plain) -> Plain:
            return await self._course.run_attempt(brief, name, number, last)

        self.run_plan = make("plan", plan)
        self._kinds = {
            "task": make("task", task),
            "contender": make("contender", contender),
            "attempt": make("attempt", attempt),
        }

    async def step(self, name: str, work: Any, *arguments: Any) -> Plain:
        """One step: what it returns is stored as plain values.

        An error that no step expects ends the process and is not stored: the run can go on when
        its cause is gone.
        """

        async def call() -> Plain:
            try:
                return to_plain(await work(*arguments))
            except Exception as error:
                await self._conduct.abort(error)

        return await DBOS.run_step_async({"name": name}, call)

    async def _plan(self) -> None:
        keys: list[str] = await self.step("start", self._conduct.start_run)
        handles = [await self.start("task", (key,), key) for key in keys]
        for handle in handles:
            await handle.get_result()
        await self.step("end", self._conduct.end_run)

    async def start(self, kind: str, path: tuple[str, ...], *arguments: Plain) -> ChildHandle:
        """See ``WorkflowHost``."""
        with SetWorkflowID("/".join((self._id, *path))):
            handle = await DBOS.start_workflow_async(self._kinds[kind], *arguments)
        return _Child(handle)


class _Child:
    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def get_result(self) -> Plain:
        return await self._handle.get_result(polling_interval_sec=_POLL)
