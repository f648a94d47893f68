"""Start the workbench on a terminal. The fleet's client is imported after the first frame."""

import asyncio
import gc
import os
import string
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from quarterdeck.config.places import Places
from quarterdeck.system.late_module import delay_functions, delay_modules
from quarterdeck.wire.clock import read_wall_clock

if TYPE_CHECKING:
    from quarterdeck.fleet.api import Fleet
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.demo import DemoScratch
    from quarterdeck.fleet.remote.dialer import RemoteDialer
    from quarterdeck.fleet.remote.grouped_host import GroupedHost

    from .app import Workbench

__all__ = ["LazyFleet", "open_workbench", "register_alt_keys"]


class LazyFleet:
    """Everything that ``HostClient`` is; made with the first ``reach``, or the first use.

    Args:
        places: where the host is.
        environment: what a host that is started gets.
        remote: the way to a host on another machine, which is meant then.
    """

    def __init__(
        self,
        places: "Places",
        environment: Mapping[str, str],
        remote: "RemoteDialer | None" = None,
    ) -> None:
        self._remote = remote
        self._places = places
        self._environment = environment
        self._client: HostClient | None = None

    async def reach(self, starts: bool) -> None:
        """Have a link to the host. Raises QuarterdeckError."""
        # In a thread: importing takes longer than a key may wait.
        client = self._client or await asyncio.to_thread(self._make)
        self._client = client

        async def ensure() -> Any:
            if self._remote is not None:
                return await self._remote.ensure()
            from quarterdeck.fleet.host.launcher import ensure_host

            return await ensure_host(self._places, self._environment)

        await client.reach(ensure if starts else None)

    async def disconnect(self) -> None:
        """Give the link up, if there ever was one."""
        if self._client is not None:
            await self._client.disconnect()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._client is None:
            self._client = self._make()
        return getattr(self._client, name)

    def _make(self) -> "HostClient":
        from quarterdeck.fleet.client import HostClient
        from quarterdeck.fleet.host.launcher import dial_host

        if self._remote is not None:
            return HostClient.create(self._remote.dial, "workbench")
        return HostClient.create(lambda: dial_host(self._places), "workbench")


_BEGINS = frozenset("[]OP^_\\")
"""What begins a sequence, or ends one."""


class _Named:
    """A key by its name, as Textual's table holds them."""

    def __init__(self, value: str) -> None:
        self.value = value


def register_alt_keys() -> None:
    """Let Textual know them; what it knows already stays."""
    from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
    from textual.keys import _character_to_key  # pyright: ignore[reportPrivateUsage]

    table = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    for character in string.ascii_letters + string.digits + string.punctuation:
        if character in _BEGINS:
            continue
        name = _character_to_key(character)
        if character.isupper():
            name = f"shift+{name.lower()}"
        table.setdefault(f"\x1b{character}", (_Named(f"alt+{name}"),))


def open_workbench(
    places: Places | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    *,
    remote: "RemoteDialer | None" = None,
    hosts: "Sequence[GroupedHost]" = (),
    demo: "DemoScratch | None" = None,
    has_captions: bool = True,
) -> int:
    """Run until the person leaves; returns the exit code. The agents go on.

    Args:
        places: whose settings, log and host; None: the person's.
        environ: what a host that is started gets; None: ours.
        cwd: where new agents work; None: here.
        remote: the way to a host on another machine, prepared; its directory is used then.
        hosts: several hosts, which are shown together.
        demo: begin this demo at once.
        has_captions: whether it shows captions.

    Raises:
        Exception: what ended it unexpectedly; the terminal is as it was before.
    """
    found = places or Places.find()
    environment = dict(os.environ if environ is None else environ)
    here = remote.resolve(None) if remote is not None else str(cwd or Path.cwd())
    if hosts:
        here = _find_directory(hosts, here)
    while True:
        app = _make_workbench(found, environment, here, remote, hosts)
        discovery = app.context.discovery
        discovery.demo, discovery.has_captions = demo, has_captions
        app.run()
        if app.crash is not None:
            raise app.crash
        if not discovery.wants_demo:
            return app.return_code or 0
        # It has a workbench, a host and a log of its own; afterwards this one is opened again.
        subprocess.run([sys.executable, "-P", "-m", "quarterdeck", "demo"], check=False)


def _find_directory(hosts: "Sequence[GroupedHost]", here: str) -> str:
    """Where new agents work: here if this machine is one of the hosts, else as the first says."""
    if any(host.is_local for host in hosts):
        return here
    asyncio.run(hosts[0].prepare())
    return hosts[0].resolve(None)


def _delay_unused_modules() -> None:
    """Keep Textual from importing what the first frame does not need.

    Its palette needs one name of its types, which import five widgets.
    """
    delay_modules("mimetypes")
    delay_functions("difflib", "get_close_matches")
    delay_functions("platformdirs", "user_downloads_path")
    from textual import _types

    name = "textual.types"
    delay_modules(name)
    vars(sys.modules[name]).setdefault("IgnoreReturnCallbackType", _types.IgnoreReturnCallbackType)


def _make_workbench(
    places: Places,
    environment: Mapping[str, str],
    cwd: str,
    remote: "RemoteDialer | None",
    hosts: "Sequence[GroupedHost]",
) -> "Workbench":
    # Nothing that is made before the first frame is garbage; looking for some delays it.
    gc.disable()
    _delay_unused_modules()
    from .app import Workbench
    from .context import WorkbenchContext
    from .drafts import Drafts
    from .preferences.store import load_preferences
    from .terminal_features import listen_for_background

    client: Any = LazyFleet(places, environment, remote)
    if hosts:
        from quarterdeck.fleet.remote.host_group import HostGroup

        client = HostGroup.create(hosts)
    drafts = Drafts(places.state / "workbench" / "drafts")
    drafts.load()
    preferences = load_preferences(places, cwd, environment)
    context = WorkbenchContext(
        fleet=cast("Fleet", client),
        drafts=drafts,
        cwd=cwd,
        clock=read_wall_clock,
        preferences=preferences,
    )
    if hosts:
        context.hosts = client
    if remote is not None or hosts:
        # Nothing is looked for on this machine, and no project of it counts.
        context.remote = ", ".join(host.label for host in hosts) or cast("Any", remote).address.name
        preferences.project = None
        context.discovery.environment = environment
    else:
        context.discovery.places, context.discovery.environment = places, environment
    register_alt_keys()
    app = Workbench(context, client.reach, on_exit=client.disconnect, on_first_frame=_collect_again)
    if preferences.wants_background:
        listen_for_background(lambda is_light: _take_background(app, is_light))
    return app


def _take_background(app: "Workbench", is_light: bool) -> None:
    """Called in the thread that reads the input."""
    app.call_later(lambda: app.work(app.theme_control.take_background(is_light)))


def _collect_again() -> None:
    """Look for garbage from now on, and not among what stays until the end."""
    gc.freeze()
    gc.enable()
