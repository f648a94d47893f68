"""The process of the web server: one for each home, started, found and stopped by commands."""

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from quarterdeck import __version__
from quarterdeck.config.loader import load_config
from quarterdeck.config.places import Places, make_private
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.host.launcher import dial_host
from quarterdeck.fleet.host.methods import WEB_CLIENT
from quarterdeck.system.background_process import read_last_lines, start_background
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.filelock import open_lock, release_lock, try_lock
from quarterdeck.wire.tasks import race_tasks, run_beside

from .devices import DeviceStore
from .errors import NoWebServerError, WebError, WebExtraMissingError, WebServerRunningError

if TYPE_CHECKING:
    from uvicorn import Config

    from .app import WebApplication

__all__ = [
    "DEFAULT_PORT",
    "WebAddress",
    "WebLock",
    "WebServerInfo",
    "WebServerOptions",
    "find_server",
    "launch_server",
    "run_server",
    "serve_web",
    "stop_server",
    "web_log_file",
]

DEFAULT_PORT = 8347
_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
_PAUSE = 0.05
_HOST_PAUSE = 1.0
_MOST_BYTES = 8192

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebServerOptions:
    """Where to listen, and under which names browsers come."""

    address: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0: any that is free."""
    urls: tuple[str, ...] = ()
    """Addresses that people use, such as ``https://box.example.net``; pairing links have the
    first."""
    certificate: str | None = None
    key: str | None = None
    """Files in PEM form; pages are then served by HTTPS."""
    behind_proxy: bool = False
    """A proxy in front of it serves HTTPS."""
    with_host: bool = False
    """End when the host ends."""

    def check(self) -> None:
        """Refuse what would send keys over a network in the clear.

        Raises:
            WebError: and says what is missing.
        """
        for url in self.urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
                raise WebError(f"{url!r} is not an address such as 'https://box.example.net'")
        if (self.certificate is None) != (self.key is None):
            raise WebError("--certificate and --key belong together")
        if self.behind_proxy and not any(url.startswith("https://") for url in self.urls):
            raise WebError("--behind-proxy needs --url with the proxy's address, https://…")
        if not self.is_secure and not _is_loopback(self.address):
            raise WebError(
                f"{self.address!r} can be reached from other machines, so pages must be served by "
                "HTTPS: give --certificate and --key, or --behind-proxy and --url"
            )
        if not _is_loopback(self.address) and not self.urls:
            raise WebError(f"--address {self.address} needs --url with the name that browsers use")

    @property
    def is_secure(self) -> bool:
        """Whether browsers come by HTTPS."""
        return self.certificate is not None or self.behind_proxy


class WebAddress(NamedTuple):
    """Where a server listens."""

    url: str
    """For browsers."""
    port: int
    """On this machine."""


class WebServerInfo(Struct, frozen=True, kw_only=True):
    """What a web server says about itself in its lock file."""

    pid: int
    url: str
    version: str
    started: int
    """Microseconds since the epoch."""


class WebLock:
    """The right to be the web server of a home. Blocks shortly: use it in a thread."""

    def __init__(self, handle: int) -> None:
        """Only ``acquire`` makes locks."""
        self._handle = handle

    @classmethod
    def acquire(cls, places: Places) -> "WebLock":
        """Become the web server.

        Raises:
            WebServerRunningError: another process is.
            WebError: the file cannot be used.
        """
        path = _lock_file(places)
        make_private(path.parent)
        try:
            handle = open_lock(path)
            for _ in range(10):  # who only looks has it for a moment
                if try_lock(handle):
                    os.ftruncate(handle, 0)
                    return cls(handle)
                time.sleep(_PAUSE)
        except OSError as error:
            raise _unusable(path, error) from error
        found = _read(handle)
        os.close(handle)
        raise WebServerRunningError(found.url if found else None)

    def sign(self, info: WebServerInfo) -> None:
        """Say who we are and where we listen."""
        data = msgspec.json.encode(info)
        os.pwrite(self._handle, data, 0)
        os.ftruncate(self._handle, len(data))

    def release(self) -> None:
        """Let another process be it."""
        with suppress(OSError):
            os.ftruncate(self._handle, 0)
        release_lock(self._handle)


def find_server(places: Places) -> WebServerInfo | None:
    """The web server that runs and listens; None: there is none. Blocks shortly.

    Raises:
        WebError: the lock file cannot be read.
    """
    return _look(places)[1]


def web_log_file(places: Places) -> Path:
    """Where the web server writes what it does."""
    return places.logs / "web.log"


async def run_server(
    places: Places, options: WebServerOptions, ready: Callable[[str], None] = lambda _: None
) -> None:
    """Be the web server of a home until SIGTERM, SIGINT, or with ``with_host`` the host's end.

    ``ready`` is called with the address once browsers can connect.

    Raises:
        WebServerRunningError: another process is.
        WebExtraMissingError: the extra is not installed.
        WebError: it cannot listen there.
    """
    options.check()
    lock = await asyncio.to_thread(WebLock.acquire, places)
    try:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, stopped.set)
        client = HostClient.create(lambda: dial_host(places), WEB_CLIENT)
        try:
            async with serve_web(places, options, client) as address:
                info = WebServerInfo(
                    pid=os.getpid(),
                    url=address.url,
                    version=__version__,
                    started=read_wall_clock(),
                )
                await asyncio.to_thread(lock.sign, info)
                ready(address.url)
                if options.with_host:
                    await race_tasks(stopped.wait(), _host_gone(client))
                else:
                    await stopped.wait()
        finally:
            await client.disconnect()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.remove_signal_handler(number)
    finally:
        await asyncio.to_thread(lock.release)


@asynccontextmanager
async def serve_web(
    places: Places, options: WebServerOptions, client: HostClient
) -> AsyncGenerator[WebAddress]:
    """Serve the web interface during a block; gives the address for browsers.

    Raises:
        WebExtraMissingError: the extra is not installed.
        WebError: it cannot listen there.
    """
    listener = _listen(options)
    try:
        port = listener.getsockname()[1]
        url = _url(options, port)
        # Loading takes a tenth of a second and looks at files.
        app, config = await asyncio.to_thread(_make_server, places, options, client, url)
    except BaseException:
        listener.close()
        raise
    import uvicorn

    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    try:
        async with app.running(), run_beside(server.main_loop(), name="web: server"):
            yield WebAddress(url, port)
    finally:
        await server.shutdown(sockets=[listener])


def _make_server(
    places: Places, options: WebServerOptions, client: HostClient, url: str
) -> "tuple[WebApplication, Config]":
    try:
        from uvicorn import Config

        from .app import WebApplication
        from .live import MOST_MESSAGE_BYTES
        from .page_files import PageFiles
        from .protection import SiteNames
    except ModuleNotFoundError as error:
        raise WebExtraMissingError(error.name or "starlette") from error

    app = WebApplication(
        client,
        DeviceStore.of(places),
        PageFiles.load(),
        places,
        load_config(places).settings,
        names=SiteNames.of((url, *options.urls)),
        url=url,
        is_secure=options.is_secure,
    )
    config = Config(
        app.asgi,
        lifespan="off",
        http="h11",
        loop="asyncio",
        ws="websockets-sansio",
        ws_max_size=MOST_MESSAGE_BYTES,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
    )
    try:
        config.load()
    except OSError as error:
        raise WebError(f"cannot use the certificate {options.certificate!r}: {error}") from error
    return app, config


async def launch_server(
    places: Places, options: WebServerOptions, environ: Mapping[str, str]
) -> WebServerInfo:
    """Start a web server in a process of its own; returns once browsers can connect.

    Raises:
        WebServerRunningError: one is running.
        WebError: it does not start; the message has its last words.
    """
    options.check()
    if (found := await asyncio.to_thread(find_server, places)) is not None:
        raise WebServerRunningError(found.url)
    child = await asyncio.to_thread(_start, places, options, environ)
    try:
        async with asyncio.timeout(_START_SECONDS):
            while (found := await asyncio.to_thread(find_server, places)) is None:
                if child.poll() is not None:
                    raise WebError(await asyncio.to_thread(_last_words, places))
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        child.terminate()
        raise WebError(await asyncio.to_thread(_last_words, places)) from None
    finally:
        if child.poll() is None:
            child.returncode = 0  # it outlives us on purpose
    return found


async def stop_server(places: Places) -> WebServerInfo:
    """End the web server and wait until it is gone.

    Raises:
        NoWebServerError: none is running.
        WebError: it does not end.
    """
    found = await asyncio.to_thread(find_server, places)
    if found is None:
        raise NoWebServerError
    with suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    try:
        await asyncio.to_thread(_wait_gone, places)
    except TimeoutError:
        raise WebError(
            f"the web server (process {found.pid}) has not ended within {_STOP_SECONDS:.0f} s"
        ) from None
    return found


def _wait_gone(places: Places) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while _look(places)[0]:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(_PAUSE)


def _start(
    places: Places, options: WebServerOptions, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    path = web_log_file(places)
    make_private(path.parent)
    words = ["web", "run", "--detached"]
    words += ["--address", options.address, "--port", str(options.port)]
    for url in options.urls:
        words += ["--url", url]
    if options.certificate is not None and options.key is not None:
        words += ["--certificate", options.certificate, "--key", options.key]
    words += ["--behind-proxy"] * options.behind_proxy + ["--with-host"] * options.with_host
    try:
        return start_background(*words, log_file=path, environ=environ)
    except OSError as error:
        raise WebError(f"cannot start the web server: {error}") from error


def _last_words(places: Places) -> str:
    path = web_log_file(places)
    last = read_last_lines(path)
    return "\n".join([f"the web server does not start; {str(path)!r} ends with:", *last])


async def _host_gone(client: HostClient) -> None:
    """Returns when the host that is there now has gone."""
    from quarterdeck.wire.errors import QuarterdeckError

    with suppress(QuarterdeckError):
        while True:
            await client.status()
            await asyncio.sleep(_HOST_PAUSE)


def _lock_file(places: Places) -> Path:
    return places.state / "web" / "server.lock"


def _look(places: Places) -> tuple[bool, WebServerInfo | None]:
    """Whether a process holds the lock, and what it has said so far."""
    path = _lock_file(places)
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False, None
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        if try_lock(handle, shared=True):
            return False, None
        return True, _read(handle)
    except OSError as error:
        raise _unusable(path, error) from error
    finally:
        os.close(handle)


def _read(handle: int) -> WebServerInfo | None:
    try:
        return decode_json(os.pread(handle, _MOST_BYTES, 0), WebServerInfo)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _unusable(path: Path, error: OSError) -> WebError:
    return WebError(f"cannot use the lock {str(path)!r}: {error.strerror or error}")


def _listen(options: WebServerOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((options.address, options.port))
        listener.listen(2048)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise WebError(
            f"cannot listen at {options.address} port {options.port}: {error.strerror or error}; "
            "choose another with --port"
        ) from error
    return listener


def _url(options: WebServerOptions, port: int) -> str:
    if options.urls:
        return options.urls[0].rstrip("/")
    scheme = "https" if options.certificate is not None else "http"
    name = f"[{options.address}]" if ":" in options.address else options.address
    return f"{scheme}://{name}:{port}"


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
