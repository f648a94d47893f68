"""The web application: sign-in, the API, the live connection, and the files of the page."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from quarterdeck import __version__
from quarterdeck.config.places import Places
from quarterdeck.config.schema import Settings
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import HostVersionError, NoHostError
from quarterdeck.fleet.method import FLEET_METHODS
from quarterdeck.fleet.notifications import Notifier
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import LinkError, QuarterdeckError
from quarterdeck.wire.record import encode_record
from quarterdeck.wire.tasks import run_beside
from quarterdeck.wire.values import Value

from .api_methods import (
    API_VERSION,
    OFFERED_METHODS,
    call_method,
    find_spawn_choices,
    make_document,
)
from .devices import DeviceKey, DeviceRole, DeviceStore, WebDevice, may_act
from .errors import DeviceStoreError, PairingError, RoleError, SignInError
from .live import FleetFeed, LiveSession, cut_records
from .page_files import PageFiles
from .protection import OversizedBodyError, RequestGuard, SiteNames
from .push import PushSender, PushStore, PushSubscription, make_senders
from .remembered_calls import CallFile, RememberedCalls

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["COOKIE", "MOST_TABS", "PairingLimit", "WebApplication"]

COOKIE = "quarterdeck"
MOST_TABS = 2_000
"""WebSockets at one time."""

_YEAR = 365 * 24 * 3600
_MOST_RECORDS = 1_000
_CHECK_SECONDS = 1.0
_HOST_SECONDS = 3.0
_CLOSE_SECONDS = 3.0
_SIGNED_OUT = 4401
_FULL = 1013

log = logging.getLogger(__name__)


class PairRequest(Value, frozen=True, kw_only=True):
    """The body of ``pair``."""

    code: str
    name: str = ""


class RevokeRequest(Value, frozen=True, kw_only=True):
    """The body of ``devices/revoke``."""

    device: str


class StartPairingRequest(Value, frozen=True, kw_only=True):
    """The body of ``devices/pair``."""

    role: DeviceRole = "operator"


class PairingLimit:
    """How often pairing may be tried from one address: ten times a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = 10) -> None:
        self._clock = clock
        self._most = most
        self._tries: OrderedDict[str, list[float]] = OrderedDict()

    def accepts(self, address: str) -> bool:
        """Count a try; False: there were too many."""
        now = self._clock()
        tries = [one for one in self._tries.pop(address, []) if now - one < 60.0]
        is_accepted = len(tries) < self._most
        self._tries[address] = [*tries, now] if is_accepted else tries
        while len(self._tries) > 1_000:
            self._tries.popitem(last=False)
        return is_accepted


class WebApplication:
    """Everything that browsers can reach.

    Args:
        client: the fleet.
        store: the devices.
        page: the files.
        places: where the descriptions of agents are.
        settings: when and how a person is notified.
        url: the address that pairing links have.
        is_secure: pages are loaded by HTTPS, so the cookie is for HTTPS alone.
    """

    def __init__(
        self,
        client: HostClient,
        store: DeviceStore,
        page: PageFiles,
        places: Places,
        settings: Settings,
        *,
        names: SiteNames,
        url: str,
        is_secure: bool = False,
    ) -> None:
        self._client = client
        self._store = store
        self._page = page
        self._places = places
        self.url = url
        self._is_secure = is_secure
        self._limit = PairingLimit()
        self._calls = RememberedCalls(CallFile.of(places))
        self._feed = FleetFeed(client)
        self._pushes = PushStore.of(places)
        self._settings = settings
        self.push = PushSender(self._pushes, client, self._paired, settings.web)
        self._is_subscribed = asyncio.Event()
        self._tabs: dict[LiveSession, DeviceKey] = {}
        self._store_lock = asyncio.Lock()
        self.asgi: ASGIApp = RequestGuard(self._routes(), names)
        """To be served."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Do what must be done while requests are served."""
        async with (
            run_beside(self._drop_revoked(), name="web: devices"),
            run_beside(self._notify(), name="web: notifications"),
        ):
            try:
                yield
            finally:
                for tab in tuple(self._tabs):
                    await tab.end(1001, "the server ends")
                await self._calls.close()

    @property
    def tabs(self) -> int:
        """How many are connected."""
        return len(self._tabs)

    def _routes(self) -> Starlette:
        api = f"/api/v{API_VERSION}"
        return Starlette(
            routes=[
                Route(f"{api}/openapi.json", self._describe),
                Route(f"{api}/pair", self._pair, methods=["POST"]),
                Route(f"{api}/session", self._session),
                Route(f"{api}/sign-out", self._sign_out, methods=["POST"]),
                Route(f"{api}/devices", self._devices),
                Route(f"{api}/devices/revoke", self._revoke, methods=["POST"]),
                Route(f"{api}/devices/pair", self._start_pairing, methods=["POST"]),
                Route(f"{api}/push", self._push_key),
                Route(f"{api}/push", self._subscribe, methods=["POST"]),
                Route(f"{api}/push/remove", self._unsubscribe, methods=["POST"]),
                Route(f"{api}/agents", self._agents),
                Route(f"{api}/records", self._records),
                Route(f"{api}/records/{{seq:int}}", self._record),
                Route(f"{api}/fleet/{{method}}", self._call, methods=["POST"]),
                WebSocketRoute(f"{api}/live", self._live),
                Route("/{path:path}", self._file),
            ],
            exception_handlers={
                QuarterdeckError: _fail,
                ValueError: _fail,
                Exception: _fail,
            },
        )

    async def _signed_in(self, connection: HTTPConnection, needed: DeviceRole) -> WebDevice:
        """Who asks. Raises SignInError, RoleError."""
        key = _key_of(connection)
        device = None if key is None else await self._stored(self._store.sign_in, key)
        if device is None:
            raise SignInError
        if not may_act(device.role, needed):
            raise RoleError(device.role, needed)
        return device

    async def _stored(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Use the file of devices, in a thread and one at a time."""
        async with self._store_lock:
            return await asyncio.to_thread(work, *arguments)

    async def _describe(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(make_document))

    async def _pair(self, request: Request) -> Response:
        address = request.client.host if request.client else ""
        if not self._limit.accepts(address):
            return _error(429, "TooManyTries", "too many tries; wait a minute")
        wanted = decode_json(await request.body(), PairRequest)
        device, key = await self._stored(self._store.finish_pairing, wanted.code, wanted.name)
        log.info("device %s (%s) is paired as %s", device.id, device.name, device.role)
        response = _json(msgspec.json.encode(self._describe_session(device)))
        response.set_cookie(
            COOKIE,
            str(key),
            max_age=_YEAR,
            path="/",
            secure=self._is_secure,
            httponly=True,
            samesite="strict",
        )
        return response

    async def _session(self, request: Request) -> Response:
        device = await self._signed_in(request, "viewer")
        await self._stored(self._store.mark_seen, device.id)
        return _json(msgspec.json.encode(self._describe_session(device)))

    def _describe_session(self, device: WebDevice) -> dict[str, Any]:
        return {
            "device": _public(device),
            "version": __version__,
            "api": API_VERSION,
            "page": self._page.version,
        }

    async def _sign_out(self, request: Request) -> Response:
        device = await self._signed_in(request, "viewer")
        await self._stored(self._store.revoke, device.id)
        await self._end_tabs(device.id)
        response = _json(b"null")
        response.delete_cookie(COOKIE, path="/")
        return response

    async def _devices(self, request: Request) -> Response:
        await self._signed_in(request, "viewer")
        devices = await self._stored(self._store.devices)
        open_tabs = [key.device for key in self._tabs.values()]
        found = [{**_public(one), "tabs": open_tabs.count(one.id)} for one in devices]
        return _json(msgspec.json.encode(found))

    async def _revoke(self, request: Request) -> Response:
        wanted = decode_json(await request.body(), RevokeRequest)
        await self._signed_in(request, "operator")
        device = await self._stored(self._store.revoke, wanted.device)
        await self._end_tabs(device.id)
        return _json(msgspec.json.encode(_public(device)))

    async def _start_pairing(self, request: Request) -> Response:
        device = await self._signed_in(request, "operator")
        wanted = decode_json(await request.body() or b"{}", StartPairingRequest)
        code = await self._stored(self._store.start_pairing, wanted.role, device.person)
        return _json(msgspec.json.encode({"link": f"{self.url}/pair#{code}"}))

    async def _push_key(self, request: Request) -> Response:
        await self._signed_in(request, "viewer")
        return _json(msgspec.json.encode({"key": await self._stored(self._pushes.public_key)}))

    async def _subscribe(self, request: Request) -> Response:
        device = await self._signed_in(request, "viewer")
        given = decode_json(await request.body(), PushSubscription)
        await self._stored(self._pushes.add, replace(given, device=device.id))
        self._is_subscribed.set()
        return _json(b"null")

    async def _unsubscribe(self, request: Request) -> Response:
        device = await self._signed_in(request, "viewer")

        def is_gone(one: PushSubscription) -> bool:
            return one.device == device.id

        await self._stored(self._pushes.remove, is_gone)
        return _json(b"null")

    def _paired(self) -> frozenset[str]:
        return frozenset(one.id for one in self._store.devices())

    async def _notify(self) -> None:
        """Notify people who are not looking, once a browser or the settings ask for it."""
        is_set = bool(self._settings.web.ntfy or self._settings.web.webhook)
        if not is_set and not await self._stored(self._pushes.subscriptions):
            await self._is_subscribed.wait()
        senders = make_senders(self._settings.web, self.push)
        notifier = Notifier(self._client, self._settings.notifications, senders)
        while True:
            try:
                await notifier.run()
            except QuarterdeckError as error:
                log.info("notifications wait for the host: %s", error)
            await asyncio.sleep(_HOST_SECONDS)

    async def _agents(self, request: Request) -> Response:
        await self._signed_in(request, "viewer")
        return _json(msgspec.json.encode(await find_spawn_choices(self._places)))

    async def _records(self, request: Request) -> Response:
        await self._signed_in(request, "viewer")
        asked = request.query_params
        before = asked.get("before")
        records = await self._client.read(
            asked.get("agent"),
            after=_number(asked.get("after", "0")),
            before=None if before is None else _number(before),
            limit=min(_number(asked.get("limit", "200")), _MOST_RECORDS),
        )
        return _json(msgspec.json.encode({"records": await cut_records(records)}))

    async def _record(self, request: Request) -> Response:
        await self._signed_in(request, "viewer")
        seq = int(request.path_params["seq"])
        records = await self._client.read(None, after=seq - 1, limit=1)
        if not records or records[0].seq != seq:
            return _error(404, "NoSuchRecord", f"there is no record {seq}")
        return _json(await asyncio.to_thread(encode_record, records[0]))

    async def _call(self, request: Request) -> Response:
        method = str(request.path_params["method"])
        device = await self._signed_in(request, "viewer")
        if method not in OFFERED_METHODS:
            return _error(404, "NoSuchMethod", f"there is no method {method!r}")
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return _error(415, "NotJson", "send the parameters as application/json")
        body = await request.body()

        async def call() -> Response:
            try:
                return _json(await call_method(self._client, device, method, body))
            except Exception as error:
                return await _fail(request, error)

        key = request.headers.get("idempotency-key")
        if key is None or not FLEET_METHODS[method].changes:
            return await call()
        return await self._calls.run(device.id, f"{method} {key[:100]}", body, call)

    async def _live(self, socket: WebSocket) -> None:
        try:
            device = await self._signed_in(socket, "viewer")
        except (SignInError, DeviceStoreError) as error:
            await _reject(socket, _SIGNED_OUT, str(error))
            return
        if len(self._tabs) >= MOST_TABS:
            await _reject(socket, _FULL, "too many tabs are open")
            return
        key = _key_of(socket)
        assert key is not None
        await socket.accept()
        session = LiveSession(_Tab(socket), device, self._client, self._feed, self._page.version)
        self._tabs[session] = key
        try:
            await session.run()
        finally:
            del self._tabs[session]

    async def _drop_revoked(self) -> None:
        """End the tabs of devices that another process has revoked."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            if not self._tabs:
                continue
            try:
                known = {one.id for one in await self._stored(self._store.devices)}
            except DeviceStoreError as error:
                log.warning("%s", error)
                continue
            for device in {key.device for key in self._tabs.values()} - known:
                await self._end_tabs(device)

    async def _end_tabs(self, device: str) -> None:
        for tab, key in tuple(self._tabs.items()):
            if key.device == device:
                await tab.end(_SIGNED_OUT, "this device was revoked")

    async def _file(self, request: Request) -> Response:
        file = self._page.find("/" + str(request.path_params["path"]))
        if file is None:
            return _error(404, "NoSuchPage", "there is no such page")
        mark = f'"{file.mark}"'
        headers = {"cache-control": "no-cache", "etag": mark, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(file.packed, headers=headers, media_type=file.kind)
        return Response(file.data, headers=headers, media_type=file.kind)


class _Tab:
    """A WebSocket of Starlette as a ``TabConnection``."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send(self, message: bytes) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):  # gone: ``receive`` says so
            await self._socket.send_text(message.decode())

    async def receive(self) -> bytes | None:
        try:
            return (await self._socket.receive_text()).encode()
        except (WebSocketDisconnect, KeyError, RuntimeError):
            return None

    async def close(self, code: int, reason: str) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            # One that does not read cannot learn why; it is closed when its handler returns.
            with suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._socket.close(code, reason)


async def _reject(socket: WebSocket, code: int, reason: str) -> None:
    # Only a connection that was accepted can say why it is closed.
    await socket.accept()
    await socket.close(code, reason)


def _key_of(connection: HTTPConnection) -> DeviceKey | None:
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return DeviceKey.parse(token.strip())
    return DeviceKey.parse(connection.cookies.get(COOKIE, ""))


def _public(device: WebDevice) -> dict[str, Any]:
    """A device without the digest of its key."""
    found: dict[str, Any] = msgspec.to_builtins(device)
    return {name: value for name, value in found.items() if name != "digest"}


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise ValueError(f"{text[:40]!r} is not a number")
    return int(text)


def _json(data: bytes, status: int = 200) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(data, status, headers=headers, media_type="application/json")


def _error(status: int, name: str, message: str) -> Response:
    return _json(msgspec.json.encode({"error": name, "message": message}), status)


_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (SignInError, 401),
    (RoleError, 403),
    (OversizedBodyError, 413),
    (PairingError, 403),
    (NoHostError, 503),
    (HostVersionError, 503),
    (LinkError, 502),
    (msgspec.DecodeError, 400),
    (ValueError, 400),
    (QuarterdeckError, 409),
)


async def _fail(request: Request, error: Exception) -> Response:
    """What went wrong, for the caller; nothing of our own insides."""
    name = type(error).__name__
    if name.startswith("NoSuch"):
        return _error(404, name, str(error))
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return _error(status, name, str(error))
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _error(500, "ServerError", "unexpected error; the log of the web server has the details")
