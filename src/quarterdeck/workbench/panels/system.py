"""The system panel: load of the machine and of the agents' processes.

Figures come from the kernel's files on Linux and from ``ps`` and ``sysctl`` on macOS. What cannot
be had is None and is said to be unknown. ``MachineSampler.sample`` blocks for some milliseconds.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from quarterdeck.system.environment import child_environment, find_own_program
from quarterdeck.wire.clock import MonotonicClock
from quarterdeck.wire.terminal_text import count_noun

from ..rendering.glyphs import CUT, UNKNOWN, WARNING
from ..rendering.lines import Line, clip
from ..sanitize import sanitize_line
from .components import HeadLine, PanelPage, PolledPanel, empty_lines
from .panel import NoOptions
from .usage_model import draw_gauge

__all__ = [
    "MachineSample",
    "MachineSampler",
    "ProcessGroup",
    "SystemPanel",
    "group_processes",
    "system_lines",
]


_HIGH = 0.9
"""Above this part something is nearly full."""


@dataclass(frozen=True, slots=True)
class MachineProcess:
    """A process: its parent, its CPU time in seconds or, from ``ps``, its share; its memory."""

    parent: int
    cpu: float
    memory: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGroup:
    """A process of the host's and all below it."""

    pid: int
    name: str
    count: int
    cpu: float | None
    """Share of one processor; None at the first look."""
    memory: int
    """Resident bytes; what is shared counts for each."""
    place: str | None = None
    """Its working directory, where it can be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSample:
    """One look at the machine. Sizes in bytes, shares from 0 to 1."""

    cpu: float | None
    processors: int
    load: tuple[float, float, float] | None
    memory: tuple[int, int] | None
    """Used and all."""
    disk: tuple[int, int] | None
    groups: tuple[ProcessGroup, ...] | None
    """None: which processes are the agents' is not known."""


class MachineSampler:
    """Looks at the machine again and again; shares of CPU are those between two looks."""

    def __init__(
        self,
        root: Path = Path("/proc"),
        platform: str = sys.platform,
        clock: MonotonicClock = time.monotonic,
    ) -> None:
        self._root = root
        self._is_linux = platform == "linux"
        self._clock = clock
        self._cpu: tuple[float, float] | None = None
        self._processes: dict[int, MachineProcess] = {}
        self._at: float | None = None

    def sample(self, host: int | None, directory: str) -> MachineSample:
        """Look; ``host`` is the process whose children the agents are."""
        processes = read_processes(self._root) if self._is_linux else ps_processes()
        now = self._clock()
        passed = None if self._at is None else max(0.001, now - self._at)
        groups = None
        if host is not None and host in processes:
            groups = group_processes(host, processes, self._share(passed), self._place)
        processors = os.cpu_count() or 1
        if self._is_linux:
            cpu, memory = self._linux_cpu(), parse_memory(_content(self._root / "meminfo"))
        else:
            cpu = min(1.0, sum(one.cpu for one in processes.values()) / processors)
            memory = _mac_memory()
        self._processes, self._at = processes, now
        return MachineSample(
            cpu=cpu,
            processors=processors,
            load=_load(),
            memory=memory,
            disk=_disk(directory),
            groups=groups,
        )

    def _share(self, passed: float | None) -> Callable[[int, MachineProcess], float | None]:
        if not self._is_linux:
            return lambda _, one: one.cpu
        earlier = self._processes

        def share(pid: int, one: MachineProcess) -> float | None:
            if passed is None:
                return None
            before = earlier.get(pid)
            return max(0.0, one.cpu - (before.cpu if before is not None else 0.0)) / passed

        return share

    def _place(self, pid: int) -> str | None:
        try:
            return str((self._root / str(pid) / "cwd").readlink()) if self._is_linux else None
        except OSError:
            return None

    def _linux_cpu(self) -> float | None:
        found = parse_cpu_times(_content(self._root / "stat"))
        before, self._cpu = self._cpu, found
        if found is None or before is None or found[1] <= before[1]:
            return None
        return (found[0] - before[0]) / (found[1] - before[1])


def parse_cpu_times(text: str) -> tuple[float, float] | None:
    """Time at work and all time, of all processors, from ``/proc/stat``."""
    found = re.match(r"cpu +([\d ]+)", text)
    if found is None:
        return None
    fields = [float(field) for field in found[1].split()][:8]
    if len(fields) < 5:
        return None
    return sum(fields) - fields[3] - fields[4], sum(fields)


def parse_memory(text: str) -> tuple[int, int] | None:
    """Used and all bytes from ``/proc/meminfo``."""
    found = dict(re.findall(r"(\w+): +(\d+) kB", text))
    try:
        total, free = int(found["MemTotal"]) * 1024, int(found["MemAvailable"]) * 1024
    except KeyError:
        return None
    return total - free, total


def read_processes(root: Path) -> dict[int, MachineProcess]:
    """Every process, from ``/proc``."""
    try:
        names = [name for name in os.listdir(root) if name.isdigit()]  # noqa: PTH208 - faster
    except OSError:
        return {}
    found = ((int(name), _process(_content(root / name / "stat"))) for name in names)
    return {pid: one for pid, one in found if one is not None}


def _process(text: str) -> MachineProcess | None:
    # The name of the program stands in parentheses and may hold anything, also parentheses.
    before, _, after = text.rpartition(")")
    fields = after.split()
    if len(fields) < 22:
        return None
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    return MachineProcess(
        parent=int(fields[1]),
        cpu=(int(fields[11]) + int(fields[12])) / ticks,
        memory=int(fields[21]) * page,
        name=before.partition("(")[2],
    )


def ps_processes() -> dict[int, MachineProcess]:
    """Every process, from ``ps``."""
    return parse_ps(_output(["ps", "-axo", "pid=,ppid=,rss=,pcpu=,comm="]))


def parse_ps(text: str) -> dict[int, MachineProcess]:
    """What ``ps`` says; lines that are not understood are left out."""
    found: dict[int, MachineProcess] = {}
    for line in text.splitlines():
        match line.split(None, 4):
            case [pid, parent, memory, cpu, name] if pid.isdigit() and parent.isdigit():
                share = float(cpu.replace(",", ".")) / 100
                found[int(pid)] = MachineProcess(
                    int(parent), share, int(memory) * 1024, name.rpartition("/")[2]
                )
            case _:
                continue
    return found


def group_processes(
    host: int,
    processes: dict[int, MachineProcess],
    share: Callable[[int, MachineProcess], float | None],
    place: Callable[[int], str | None],
) -> tuple[ProcessGroup, ...]:
    """A group for each child of the host, the busiest first."""
    children: dict[int, list[int]] = {}
    for pid, one in processes.items():
        children.setdefault(one.parent, []).append(pid)
    groups: list[ProcessGroup] = []
    for top in children.get(host, ()):
        members = _below(top, children)
        shares = [share(pid, processes[pid]) for pid in members]
        known = [one for one in shares if one is not None]
        groups.append(
            ProcessGroup(
                pid=top,
                name=processes[top].name,
                count=len(members),
                cpu=sum(known) if known else None,
                memory=sum(processes[pid].memory for pid in members),
                place=place(top),
            )
        )
    return tuple(sorted(groups, key=lambda group: (-(group.cpu or 0), -group.memory, group.pid)))


def _below(top: int, children: dict[int, list[int]]) -> list[int]:
    found, waiting = [top], [top]
    seen = {top}
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in seen]
        seen.update(new)
        found += new
        waiting += new
    return found


def system_lines(
    sample: MachineSample, names: Callable[[str], str | None], width: int
) -> list[Line]:
    """The page; ``names`` gives the agent that works alone in a directory."""
    length = max(4, min(100, width - 38))
    lines: list[Line] = [
        _gauge("cpu", sample.cpu, f"of {count_noun(sample.processors, 'processor')}", length),
        _amount("memory", sample.memory, length),
        _amount("disk", sample.disk, length),
        _load_line(sample.load),
        (),
    ]
    lines += _group_lines(sample.groups, names, width)
    return [clip(line, width) for line in lines]


def _group_lines(
    groups: tuple[ProcessGroup, ...] | None, names: Callable[[str], str | None], width: int
) -> Iterable[Line]:
    if groups is None:
        yield from empty_lines(
            "The processes of agents appear here when a host runs.",
            [("/host", "starts one")],
            width,
        )
        return
    total = sum(group.count for group in groups)
    cpu = sum(group.cpu or 0 for group in groups)
    memory = format_bytes(sum(group.memory for group in groups))
    noun = "process" if total == 1 else "processes"
    summary = f"  {total} {noun}, {format_percent(cpu)} of a cpu, {memory}"
    yield (("agents", "strong"), (summary, "faint"))
    yield (("   cpu    memory  count  process", "faint"),)
    for group in groups:
        name = names(group.place) if group.place is not None else None
        share = UNKNOWN if group.cpu is None else format_percent(group.cpu)
        description = sanitize_line(group.name, 40) + (
            f" ({sanitize_line(name, 40)})" if name else ""
        )
        figures = f"{share:>6} {format_bytes(group.memory):>9} {group.count:>6}  "
        yield ((figures, "text"), (description, "strong"), (f"  {group.pid}", "faint"))


def _gauge(label: str, part: float | None, description: str, length: int) -> Line:
    if part is None:
        return ((f"{label:<8}", "faint"), (f"measuring {CUT}", "faint"))
    role = "warning" if part > _HIGH else "running"
    sign = f"{WARNING} " if part > _HIGH else "  "
    return (
        (f"{label:<8}", "faint"),
        (draw_gauge(part, length), role),
        (f" {format_percent(part):>5} ", "text"),
        (sign, "warning"),
        (description, "faint"),
    )


def _load_line(load: tuple[float, float, float] | None) -> Line:
    figures = UNKNOWN if load is None else "  ".join(f"{one:.2f}" for one in load)
    return (("load    ", "faint"), (figures, "text"), ("  1, 5, 15 min", "faint"))


def format_percent(part: float) -> str:
    """A part of 1 in percent."""
    return f"{part * 100:.0f} %"


def _amount(label: str, pair: tuple[int, int] | None, length: int) -> Line:
    if pair is None or not pair[1]:
        return ((f"{label:<8}", "faint"), (UNKNOWN, "faint"))
    description = f"{format_bytes(pair[0])} of {format_bytes(pair[1])}"
    return _gauge(label, pair[0] / pair[1], description, length)


def format_bytes(number: int) -> str:
    """Bytes in few characters."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return (
                f"{value:.0f} {unit}"
                if unit in ("B", "kB") or value >= 99.5
                else f"{value:.1f} {unit}"
            )
        value /= 1000
    return f"{value:.1f} TB"


def _load() -> tuple[float, float, float] | None:
    try:
        return os.getloadavg()
    except OSError:
        return None


def _disk(directory: str) -> tuple[int, int] | None:
    try:
        found = shutil.disk_usage(directory)
    except OSError:
        return None
    return found.used, found.total


def _mac_memory() -> tuple[int, int] | None:
    total = _output(["sysctl", "-n", "hw.memsize"]).strip()
    return parse_vm_stat(_output(["vm_stat"]), int(total)) if total.isdigit() else None


def parse_vm_stat(text: str, total: int) -> tuple[int, int] | None:
    """Used and all bytes from ``vm_stat``: what is neither free, inactive nor speculative."""
    page = re.search(r"page size of (\d+) bytes", text)
    pages = dict(re.findall(r"Pages ([\w ]+): +(\d+)\.", text))
    if page is None or "free" not in pages:
        return None
    free = sum(int(pages.get(kind, 0)) for kind in ("free", "inactive", "speculative"))
    return max(0, total - free * int(page[1])), total


def _output(command: list[str]) -> str:
    # No one asked for it, so it is none of the project that we happen to be in.
    program = find_own_program(command[0], [os.getcwd()])  # noqa: PTH109
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *command[1:]],
            env=child_environment({"LC_ALL": "C"}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "backslashreplace")


def _content(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "backslashreplace")
    except OSError:
        return ""


class SystemPanel(PolledPanel):
    """Looks every two seconds while it can be seen."""

    has_head: ClassVar[bool] = False
    EVERY: ClassVar[float | None] = 2.0
    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "reload", "refresh")]

    def __init__(self, context: Any, options: NoOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self._sampler = MachineSampler()
        self.sample: MachineSample | None = None
        self.head: HeadLine = HeadLine()
        self.page = PanelPage(self._lines, id="page")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield from (self.head, self.page)

    def on_mount(self) -> None:
        """Say what it is."""
        self.head.show(self.title)

    def focus_target(self) -> PanelPage:
        """See ``PolledPanel``."""
        return self.page

    async def look(self) -> None:
        """Take a sample."""
        status = self.context.roster.status
        host = status.pid if status is not None else None
        self.sample = await asyncio.to_thread(self._sampler.sample, host, self.context.cwd)
        if self.is_mounted:
            self.page.update()
            self._show_head(self.sample)

    def _show_head(self, sample: MachineSample) -> None:
        processors = count_noun(sample.processors, "processor")
        self.head.show(self.title, (processors, "faint"), ("every 2s", "faint"))

    def action_reload(self) -> None:
        """Look now."""
        self.look_now()

    def _lines(self, width: int) -> list[Line]:
        if self.sample is None:
            return []
        return system_lines(self.sample, self._agent_in, width)

    def _agent_in(self, directory: str) -> str | None:
        found = [
            one.name for one in self.context.roster.everyone if one.is_live and one.cwd == directory
        ]
        return found[0] if len(found) == 1 else None
