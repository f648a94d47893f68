"""``web``: the fleet in a browser."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from quarterdeck.config.places import Places
from quarterdeck.wire.clock import read_wall_clock

from ..command_io import as_json_option, echo_json, echo_lines, terminal_width
from ..output import echo, escape_controls, format_age, table
from .exit_codes import NO_HOST

if TYPE_CHECKING:
    from quarterdeck.web.devices import DeviceRole
    from quarterdeck.web.server import WebServerInfo, WebServerOptions

__all__ = ["web"]

NO_SERVER = NO_HOST

_role_option = click.option(
    "--role",
    type=click.Choice(("viewer", "approver", "operator")),
    default="operator",
    show_default=True,
    help="What the device may do: look; answer requests too; everything.",
)
_person_option = click.option(
    "--person", metavar="NAME", help="Whose device it is; by default, you. Answers carry the name."
)


def _server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        (
            click.option(
                "--address",
                default="127.0.0.1",
                show_default=True,
                help="Where to listen; one that other machines can reach needs HTTPS.",
            ),
            click.option(
                "--port",
                type=click.IntRange(0, 65535),
                default=8347,
                show_default=True,
                help="0: any that is free.",
            ),
            click.option(
                "--url",
                "urls",
                multiple=True,
                metavar="URL",
                help="The address that browsers use, if it is another one. May be repeated.",
            ),
            click.option(
                "--certificate", metavar="FILE", help="Serve HTTPS with this certificate (PEM)."
            ),
            click.option("--key", metavar="FILE", help="The private key of the certificate (PEM)."),
            click.option(
                "--behind-proxy", is_flag=True, help="A proxy in front of it serves HTTPS."
            ),
            click.option(
                "--with-host", is_flag=True, help="Start the host too, and stop when it stops."
            ),
        )
    ):
        command = option(command)
    return command


@click.group()
def web() -> None:
    """Show the fleet in a browser, on this machine or on a phone.

    A process of its own serves the pages, for paired devices only. Needs the extra `web`.
    """


@web.command()
@_server_options
@click.option("--detached", is_flag=True, hidden=True)
def run(detached: bool, **given: Any) -> None:
    """Run the web server in the foreground until SIGTERM or Ctrl-C."""
    from quarterdeck.fleet.host.process import log_to_file
    from quarterdeck.web.server import run_server, web_log_file

    places, options = Places.find(), _options(given)

    def ready(url: str) -> None:
        if not detached:
            echo(f"The web server is ready: {url}", err=True)

    with log_to_file(web_log_file(places), dict(os.environ)):
        asyncio.run(run_server(places, options, ready))


@web.command()
@_server_options
@as_json_option
def start(as_json: bool, **given: Any) -> None:
    """Start the web server in the background."""
    from quarterdeck.web.server import launch_server

    options = _options(given)
    _check_extra()
    if options.with_host:
        from ..command_io import with_fleet

        with_fleet(lambda fleet: fleet.status())
    info = asyncio.run(launch_server(Places.find(), options, os.environ))
    if as_json:
        echo_json(info)
    else:
        echo(f"The web server runs: {info.url}")
        echo("Pair a browser or a phone with: quarterdeck web pair")


@web.command(epilog="Exit codes: 0 running, 3 not running.")
@as_json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Show whether the web server is running, and where."""
    from quarterdeck.web.devices import DeviceStore
    from quarterdeck.web.errors import NoWebServerError
    from quarterdeck.web.server import find_server

    places = Places.find()
    found, devices = find_server(places), len(DeviceStore.of(places).devices())
    if as_json:
        about: dict[str, object] = {} if found is None else msgspec.to_builtins(found)
        echo_json({"running": found is not None, **about, "devices": devices})
    elif found is None:
        echo(f"quarterdeck: {NoWebServerError()}", err=True)
    else:
        age = format_age(found.started, read_wall_clock())
        echo(f"address   {escape_controls(found.url)}")
        echo(f"process   {found.pid}, quarterdeck {escape_controls(found.version)}, for {age}")
        echo(f"devices   {devices or 'none; `quarterdeck web pair` adds one'}")
    if found is None:
        context.exit(NO_SERVER)


@web.command(epilog="Exit codes: 0 stopped, 3 was not running.")
@as_json_option
@click.pass_context
def stop(context: click.Context, as_json: bool) -> None:
    """Stop the web server; agents go on."""
    from quarterdeck.web.errors import NoWebServerError
    from quarterdeck.web.server import stop_server

    try:
        found = asyncio.run(stop_server(Places.find()))
    except NoWebServerError as error:
        if as_json:
            echo_json({"stopped": False})
        else:
            echo(f"quarterdeck: {error}", err=True)
        context.exit(NO_SERVER)
    if as_json:
        echo_json({"stopped": True, "pid": found.pid})
    else:
        echo("The web server has ended.")


@web.command()
@_role_option
@_person_option
@click.option("--start", "is_started", is_flag=True, help="Start the web server if none runs.")
@click.option(
    "--program", metavar="NAME", help="Print a key for a program of yours instead of a link."
)
@as_json_option
def pair(
    role: "DeviceRole", person: str | None, program: str | None, is_started: bool, as_json: bool
) -> None:
    """Pair a browser or a phone: show a link and a QR code that work once, for ten minutes."""
    from quarterdeck.web.devices import DeviceStore

    places = Places.find()
    store, who = DeviceStore.of(places), person or _own_name()
    if program is not None:
        device, key = store.add_device(program, who, role)
        if as_json:
            echo_json({"device": device.id, "role": role, "key": str(key)})
        else:
            echo(f"Send this with each request, and keep it secret:\nAuthorization: Bearer {key}")
        return
    server = _find_or_start(places, is_started)
    link = f"{server.url}/pair#{store.start_pairing(role, who)}"
    if as_json:
        echo_json({"link": link, "role": role, "person": who})
        return
    echo_lines(_draw_code(link))
    echo(f"Open this within ten minutes; it works once, for the role {role}:")
    echo(f"  {link}")
    if any(name in link for name in ("://127.", "://localhost", "://[::1]")):
        echo("This address works on this machine alone, and through an SSH tunnel; for a phone,")
        echo(
            "start the web server behind a proxy: `quarterdeck web start --behind-proxy --url URL`."
        )
    if store.devices():
        echo()
        _list_devices(places)


@web.command()
@as_json_option
def devices(as_json: bool) -> None:
    """List the paired devices."""
    from quarterdeck.web.devices import DeviceStore

    places = Places.find()
    found = DeviceStore.of(places).devices()
    if as_json:
        fields = ("id", "name", "person", "role", "paired", "seen")
        echo_json([{name: getattr(one, name) for name in fields} for one in found])
    elif not found:
        echo("No device is paired; `quarterdeck web pair` adds one.")
    else:
        _list_devices(places)


@web.command()
@click.argument("device")
def revoke(device: str) -> None:
    """Revoke a DEVICE, by id or name: its key stops working at once."""
    from quarterdeck.web.devices import DeviceStore

    found = DeviceStore.of(Places.find()).revoke(device)
    echo(f"Revoked {escape_controls(found.name)} ({found.id}).")


def _list_devices(places: Places) -> None:
    from quarterdeck.web.devices import DeviceStore

    now = read_wall_clock()
    rows = [
        (one.id, one.role, format_age(one.seen or one.paired, now), one.person, one.name)
        for one in DeviceStore.of(places).devices()
    ]
    echo_lines(table(("ID", "ROLE", "SEEN", "PERSON", "NAME"), rows, terminal_width()))


def _find_or_start(places: Places, is_started: bool) -> "WebServerInfo":
    from quarterdeck.web.errors import NoWebServerError
    from quarterdeck.web.server import WebServerOptions, find_server, launch_server

    if (found := find_server(places)) is not None:
        return found
    if not is_started:
        raise NoWebServerError
    _check_extra()
    return asyncio.run(launch_server(places, WebServerOptions(), os.environ))


def _options(given: dict[str, Any]) -> "WebServerOptions":
    from quarterdeck.web.server import WebServerOptions

    for name in ("certificate", "key"):
        if given[name] is not None:
            given[name] = os.path.abspath(given[name])  # noqa: PTH100 - a link stays one
    return WebServerOptions(**given)


def _check_extra() -> None:
    from importlib import import_module

    from quarterdeck.web.errors import WebExtraMissingError

    for package in ("starlette", "uvicorn"):
        try:
            import_module(package)
        except ModuleNotFoundError as error:
            raise WebExtraMissingError(package) from error


def _own_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "person"


def _draw_code(link: str) -> Iterator[str]:
    """The link as a QR code; nothing where the output is no terminal, or cannot be drawn."""
    if not sys.stdout.isatty():
        return
    try:
        import segno
    except ModuleNotFoundError:
        return
    from io import StringIO

    drawn = StringIO()
    segno.make(link, error="l", micro=False).terminal(drawn, compact=True, border=2)
    yield from drawn.getvalue().splitlines()
