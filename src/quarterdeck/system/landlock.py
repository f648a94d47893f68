"""Landlock: a thread gives up, for good, what a command must not do, and then starts it.

What a thread gives up its children lack too, and no other thread notices. So the command is
started by a thread that lives for this only (``quarterdeck.system.spawn``), without an interpreter
between us and the command: half a millisecond instead of twenty.
"""

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable
from functools import cache

from quarterdeck.system.seccomp import has_seccomp, install_seccomp, seccomp_program

__all__ = ["SCOPED_SIGNALS", "landlock_abi", "restrict_thread"]

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38

# What Landlock calls the ways to change a file system; later kernels know more of them.
_WRITE_FILE, _REFER, _TRUNCATE, _IOCTL = 1 << 1, 1 << 13, 1 << 14, 1 << 15
_MAKE_CHARACTER_DEVICE, _MAKE_BLOCK_DEVICE = 1 << 6, 1 << 11
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))  # remove and make, of all kinds
_TCP = 0b11  # bind, connect
_SCOPES = 0b11  # abstract unix sockets, signals
SCOPED_SIGNALS = 6
"""The version that keeps signals inside."""

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_CAPABILITIES = 0x20080522
"""The version of the structures of ``capget`` and ``capset``."""
_KEPT_CAPABILITIES = 1 << 1 | 1 << 2
"""To read and write files of others, as the person can who is root; not to change who owns them."""


def landlock_abi() -> int:
    """The version of Landlock that the kernel has; 0: none."""
    if sys.platform != "linux":
        return 0
    return max(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), 1), 0)


def restrict_thread(writable: Iterable[str], *, network: bool, sealed: bool) -> None:
    """Give up, in this thread and all that it starts, everything but changes below ``writable``.

    Call it in a thread that ends afterwards. ``network`` leaves sockets of IP; ``sealed`` takes
    also what changes a file's permissions, times and attributes.

    Raises:
        OSError: It could not be done; the thread must start nothing.
    """
    _checked(_libc().prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))), "prctl")
    _drop_capabilities()
    _restrict_files(writable, network=network)
    if has_seccomp():
        # Before the kernel could keep signals inside, a sealed command sends none at all.
        signals = not sealed or landlock_abi() >= SCOPED_SIGNALS
        install_seccomp(
            seccomp_program(internet=network, shared_memory=False, sealed=sealed, signals=signals)
        )


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _drop_capabilities() -> None:
    """Keep of root's powers only what files of the workspace may need."""
    header = struct.pack("=Ii", _CAPABILITIES, 0)
    held = ctypes.create_string_buffer(24)
    _checked(_libc().capget(header, held), "capget")
    _, low, _, _, high, _ = struct.unpack("=6I", held.raw)
    if not (low or high):
        return
    kept = low & _KEPT_CAPABILITIES
    _checked(_libc().capset(header, struct.pack("=6I", kept, kept, 0, 0, 0, 0)), "capset")


def _restrict_files(writable: Iterable[str], *, network: bool) -> None:
    """Allow changes below ``writable`` and at harmless devices only."""
    version = landlock_abi()
    changes = _CHANGES
    changes |= _REFER if version >= 2 else 0
    changes |= _TRUNCATE if version >= 3 else 0
    changes |= _IOCTL if version >= 5 else 0
    sockets = _TCP if version >= 4 and not network else 0
    scopes = _SCOPES if version >= SCOPED_SIGNALS else 0
    ruleset = struct.pack("=QQQ", changes, sockets, scopes)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    handle = _checked(
        _libc().syscall(_CREATE, ruleset, ctypes.c_size_t(size), 0), "landlock_create_ruleset"
    )
    try:
        for place in writable:
            # Who can make a device can write to the disk below everything.
            _allow(handle, place, changes & ~(_MAKE_CHARACTER_DEVICE | _MAKE_BLOCK_DEVICE))
        for device in _DEVICES:
            _allow(handle, device, changes)
        _checked(_libc().syscall(_RESTRICT, handle, 0), "landlock_restrict_self")
    finally:
        os.close(handle)


def _allow(handle: int, place: str, changes: int) -> None:
    try:
        opened = os.open(place, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # what is not there needs no rule
        return
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            changes &= _WRITE_FILE | _TRUNCATE | _IOCTL
        rule = struct.pack("=Qi", changes, opened)
        _checked(_libc().syscall(_ADD, handle, 1, rule, 0), f"landlock_add_rule {place}")
    finally:
        os.close(opened)
