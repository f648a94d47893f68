"""Devices that may use the browser interface, and codes with which new ones are paired.

One private file in the state directory; a lock beside it makes every change one step, whichever
process makes it. Keys and codes are kept as digests only: who reads the file cannot sign in.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from quarterdeck.config.places import Places, make_private
from quarterdeck.wire.clock import WallClock, read_wall_clock
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.filelock import hold_lock
from quarterdeck.wire.private_files import write_private
from quarterdeck.wire.values import Value

from .errors import DeviceStoreError, NoSuchDeviceError, PairingError

__all__ = [
    "PAIRING_SECONDS",
    "ROLES",
    "DeviceKey",
    "DeviceRole",
    "DeviceStore",
    "WebDevice",
    "may_act",
]

DeviceRole: TypeAlias = Literal["viewer", "approver", "operator"]
ROLES: tuple[DeviceRole, ...] = ("viewer", "approver", "operator")
"""Each may do what those before it may."""
PAIRING_SECONDS = 600
"""How long a pairing code can be used."""

_VERSION = 1
_MOST_PAIRINGS = 20
_LONGEST_NAME = 60
_SECOND = 1_000_000
_SEEN_EVERY = 60 * _SECOND
"""How exact ``seen`` is: a request does not write a file each time."""

T = TypeVar("T")


class WebDevice(Value, frozen=True, kw_only=True):
    """A browser or program that has been paired."""

    id: str
    name: str
    person: str
    """Who uses it; each answer given from it has this name in the log."""
    role: DeviceRole
    digest: str
    """Of its key."""
    paired: int
    """Microseconds since the epoch, as all times."""
    seen: int = 0

    @property
    def decider(self) -> str:
        """The name under which its answers are recorded."""
        return f"{self.person} ({self.name})"


class PairingCode(Value, frozen=True, kw_only=True):
    """A code that was shown and not used yet."""

    digest: str
    role: DeviceRole
    person: str
    expires: int


class DeviceFile(Value, frozen=True, kw_only=True):
    """The form of the file."""

    v: int
    devices: tuple[WebDevice, ...] = ()
    pairings: tuple[PairingCode, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """What a device sends to sign in: its id and a secret that only it has."""

    device: str
    secret: str

    def __str__(self) -> str:
        return f"{self.device}.{self.secret}"

    def __repr__(self) -> str:
        return f"DeviceKey({self.device!r}, …)"

    @classmethod
    def parse(cls, text: str) -> "DeviceKey | None":
        """Read it as ``str`` wrote it; None: it is none."""
        device, dot, secret = text.partition(".")
        return cls(device, secret) if dot and device and secret else None


def may_act(role: DeviceRole, needed: DeviceRole) -> bool:
    """Whether a role may do what another one is needed for."""
    return ROLES.index(role) >= ROLES.index(needed)


class DeviceStore:
    """The file of devices. Every method blocks on files: call it in a thread."""

    def __init__(self, path: Path, clock: WallClock = read_wall_clock) -> None:
        self._path = path
        self._clock = clock
        self._read: tuple[tuple[int, int, int], DeviceFile] | None = None

    @classmethod
    def of(cls, places: Places) -> "DeviceStore":
        """That of a home."""
        return cls(places.state / "web" / "devices.json")

    def devices(self) -> tuple[WebDevice, ...]:
        """All devices, the first paired first. Raises DeviceStoreError."""
        return self._load().devices

    def start_pairing(self, role: DeviceRole, person: str) -> str:
        """Make a code that pairs one device within ten minutes; returns it.

        Raises:
            DeviceStoreError: the file cannot be written.
        """
        code = secrets.token_urlsafe(18)
        expires = self._clock() + PAIRING_SECONDS * _SECOND
        new = PairingCode(
            digest=_digest(code), role=role, person=_clean(person, "person"), expires=expires
        )

        def change(old: DeviceFile) -> tuple[DeviceFile, str]:
            kept = self._unexpired(old)[-(_MOST_PAIRINGS - 1) :]
            return replace(old, pairings=(*kept, new)), code

        return self._change(change)

    def finish_pairing(self, code: str, name: str) -> tuple[WebDevice, DeviceKey]:
        """Use a code up; returns the new device and the key that is never shown again.

        Raises:
            PairingError: no such code is open.
            DeviceStoreError: the file cannot be written.
        """
        digest = _digest(code)

        def change(old: DeviceFile) -> tuple[DeviceFile, tuple[WebDevice, DeviceKey]]:
            found: PairingCode | None = None
            others: list[PairingCode] = []
            for one in self._unexpired(old):
                if hmac.compare_digest(one.digest, digest):
                    found = one
                else:
                    others.append(one)
            if found is None:
                raise PairingError
            device, key = self._make(name, found.person, found.role)
            new = replace(old, devices=(*old.devices, device), pairings=tuple(others))
            return new, (device, key)

        return self._change(change)

    def add_device(self, name: str, person: str, role: DeviceRole) -> tuple[WebDevice, DeviceKey]:
        """Add a device without a code: a program of the person who owns this file.

        Raises:
            DeviceStoreError: the file cannot be written.
        """
        made = self._make(name, person, role)
        return self._change(lambda old: (replace(old, devices=(*old.devices, made[0])), made))

    def sign_in(self, key: DeviceKey) -> WebDevice | None:
        """The device that has this key; None: there is none, or it was revoked.

        Raises:
            DeviceStoreError: the file cannot be read.
        """
        found = next((one for one in self._load().devices if one.id == key.device), None)
        # The same work whether or not there is such a device.
        expected = found.digest if found is not None else _digest("")
        is_right = hmac.compare_digest(expected, _digest(key.secret))
        return found if found is not None and is_right else None

    def mark_seen(self, device: str) -> None:
        """Note that a device was used now; exact to a minute."""
        now = self._clock()

        def change(old: DeviceFile) -> tuple[DeviceFile, None]:
            devices = tuple(
                replace(one, seen=now) if one.id == device else one for one in old.devices
            )
            return replace(old, devices=devices), None

        found = next((one for one in self._load().devices if one.id == device), None)
        if found is not None and abs(now - found.seen) >= _SEEN_EVERY:
            self._change(change)

    def revoke(self, device: str) -> WebDevice:
        """Remove a device, by id or by a name that only it has; its key is worth nothing then.

        Raises:
            NoSuchDeviceError: there is none.
            DeviceStoreError: the file cannot be written.
        """

        def change(old: DeviceFile) -> tuple[DeviceFile, WebDevice]:
            found = [one for one in old.devices if one.id == device]
            found = found or [one for one in old.devices if one.name == device]
            if len(found) != 1:
                raise NoSuchDeviceError(device)
            devices = tuple(one for one in old.devices if one is not found[0])
            return replace(old, devices=devices), found[0]

        return self._change(change)

    def _make(self, name: str, person: str, role: DeviceRole) -> tuple[WebDevice, DeviceKey]:
        key = DeviceKey(secrets.token_hex(6), secrets.token_urlsafe(32))
        device = WebDevice(
            id=key.device,
            name=_clean(name, "browser"),
            person=_clean(person, "person"),
            role=role,
            digest=_digest(key.secret),
            paired=self._clock(),
        )
        return device, key

    def _unexpired(self, file: DeviceFile) -> list[PairingCode]:
        # A clock that was set back must not make a code last longer than it was meant to.
        now = self._clock()
        return [one for one in file.pairings if 0 < one.expires - now <= PAIRING_SECONDS * _SECOND]

    def _load(self) -> DeviceFile:
        try:
            status = self._path.stat()
            mark = (status.st_mtime_ns, status.st_ino, status.st_size)
            if self._read is None or self._read[0] != mark:
                self._read = mark, self._decode(self._path.read_bytes())
        except FileNotFoundError:
            return DeviceFile(v=_VERSION)
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        return self._read[1]

    def _decode(self, data: bytes) -> DeviceFile:
        try:
            file = decode_json(data, DeviceFile)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._unusable(str(error)) from error
        if file.v != _VERSION:
            raise self._unusable(f"its form is {file.v}, this program knows {_VERSION}")
        return file

    def _change(self, change: Callable[[DeviceFile], tuple[DeviceFile, T]]) -> T:
        make_private(self._path.parent)
        try:
            with hold_lock(self._path.with_suffix(".lock")):
                new, result = change(self._load())
                write_private(self._path, msgspec.json.encode(new).decode() + "\n")
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error
        return result

    def _unusable(self, reason: str) -> DeviceStoreError:
        return DeviceStoreError(
            f"cannot use {str(self._path)!r}: {reason}; repair it, or delete it to sign out all "
            "devices"
        )


def _digest(secret: str) -> str:
    # The secrets are random and long: no slow digest is needed to keep them from being guessed.
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _clean(name: str, fallback: str) -> str:
    """A name that is one short line of printable characters."""
    kept = "".join(letter if letter.isprintable() else " " for letter in name)
    return " ".join(kept.split())[:_LONGEST_NAME] or fallback
