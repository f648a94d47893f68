"""Landlock and seccomp: a process gives up, for good, what it and its children must not do.

Run as a program it restricts itself and becomes the command: files can be changed below some
directories only, and sockets of some families cannot be made. Only the standard library is
imported, and little of it (not even ``collections``), so that a command starts some milliseconds
later.
"""

import ctypes
import os
import struct
import sys

__all__ = ["abi", "has_seccomp", "launcher", "main"]

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from quarterdeck.system.landlock import main; main(sys.argv[2:])"
)
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2

# What Landlock calls the ways to change a file system; later kernels know more of them.
_WRITE_FILE, _TRUNCATE, _IOCTL = 1 << 1, 1 << 14, 1 << 15
_REFER = 1 << 13
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))  # remove and make, of all kinds
_TCP = 0b11  # bind, connect
_SCOPES = 0b11  # abstract unix sockets, signals

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_ARCHITECTURES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""What seccomp calls a machine, and the number of its system call ``socket``."""
_IO_URING_SETUP = 425
_EACCES, _ENOSYS = 13, 38
_INET, _INET6, _NETLINK = 2, 10, 16


def abi() -> int:
    """The version of Landlock that the kernel has; 0: none."""
    if sys.platform != "linux":
        return 0
    return max(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), 1), 0)


def has_seccomp() -> bool:
    """Whether sockets can be forbidden on this kind of machine."""
    return os.uname().machine in _ARCHITECTURES


def launcher(writable: list[str], argv: list[str], *, network: bool) -> list[str]:
    """The words of a command that restricts itself and becomes ``argv``."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120
    mode = "network" if network else "offline"
    start = [sys.executable, "-I", "-S", "-E", "-c", _PROGRAM, source]
    return [*start, mode, str(len(writable)), *writable, *argv]


def main(arguments: list[str]) -> None:
    """Restrict this process and become the command. Exit code 126: it could not be restricted."""
    mode, count, *rest = arguments
    places, argv = rest[: int(count)], rest[int(count) :]
    try:
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _restrict(places, network=mode == "network")
        _forbid_sockets(network=mode == "network")
    except OSError as error:
        os.write(2, f"the sandbox could not be set up: {error}\n".encode())
        os._exit(126)
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(option: int, value: int, pointer: object = 0) -> None:
    """Call prctl; its arguments are of the size of a pointer."""
    rest = pointer if pointer != 0 else ctypes.c_ulong(0)
    zero = ctypes.c_ulong(0)
    done = _libc().prctl(option, ctypes.c_ulong(value), rest, zero, zero)
    _checked(done, f"prctl {option}")


def _restrict(places: list[str], *, network: bool) -> None:
    """Allow changes below ``places`` and at harmless devices only."""
    version = abi()
    changes = _CHANGES
    changes |= _REFER if version >= 2 else 0
    changes |= _TRUNCATE if version >= 3 else 0
    sockets = _TCP if version >= 4 and not network else 0
    scopes = _SCOPES if version >= 6 else 0
    ruleset = struct.pack("=QQQ", changes, sockets, scopes)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    libc = _libc()
    handle = _checked(
        libc.syscall(_CREATE, ruleset, ctypes.c_size_t(size), 0), "landlock_create_ruleset"
    )
    for place in places:
        _allow(libc, handle, place, changes)
    for device in (*_DEVICES, "/dev/shm"):
        is_directory = device == "/dev/shm"
        _allow(
            libc, handle, device, changes if is_directory else changes & (_WRITE_FILE | _TRUNCATE)
        )
    _checked(libc.syscall(_RESTRICT, handle, 0), "landlock_restrict_self")
    os.close(handle)


def _allow(libc: ctypes.CDLL, handle: int, place: str, changes: int) -> None:
    try:
        opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # what is not there needs no leave
        return
    rule = struct.pack("=Qi", changes, opened)
    try:
        _checked(libc.syscall(_ADD, handle, 1, rule, 0), f"landlock_add_rule {place}")
    finally:
        os.close(opened)


def _forbid_sockets(*, network: bool) -> None:
    """Refuse sockets by family: local ones always, those of the network unless it is allowed.

    Through a local socket a command could ask a program outside (a container's daemon, a
    terminal multiplexer) to do what it may not do itself. Pairs of sockets are not affected.
    """
    if not has_seccomp():
        return
    architecture, socket = _ARCHITECTURES[os.uname().machine]
    families = [_NETLINK, *((_INET, _INET6) if network else ())]
    # Each instruction: code, jump if true, jump if false, constant.
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    allow, refuse, missing = 0x7FFF0000, 0x00050000 | _EACCES, 0x00050000 | _ENOSYS
    checks = [(equal, len(families) - number, 0, family) for number, family in enumerate(families)]
    program = [
        (load, 0, 0, 4),
        (equal, 1, 0, architecture),
        (answer, 0, 0, missing),  # another instruction set, whose numbers mean other calls
        (load, 0, 0, 0),
        (at_least, 0, 1, 0x40000000),  # x32, likewise
        (answer, 0, 0, missing),
        (equal, 0, 1, _IO_URING_SETUP),  # makes sockets without the call
        (answer, 0, 0, missing),
        (equal, 0, len(checks) + 2, socket),
        (load, 0, 0, 16),
        *checks,
        (answer, 0, 0, refuse),
        (answer, 0, 0, allow),
    ]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    description = struct.pack("@HP", len(program), ctypes.addressof(filters))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.create_string_buffer(description))
