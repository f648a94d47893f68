"""Seccomp: the system calls that a command in a sandbox does not get, as a program for the kernel.

A sandbox of mounts or of Landlock rules decides about files. What else leads out of it is refused
here, by number and argument: sockets by their family, pairs of datagram sockets (they can be sent
elsewhere), name spaces, keys, mounts, ways into the kernel and into other processes. A sealed
command may not change the permissions, times and attributes of files either, wherever they are.

Landlock's thread loads the program itself; bubblewrap reads it from a descriptor. Refusals are
errors, never a kill: programs report them. Most answers depend on the number alone, and the kernel
remembers those, so that permitted calls cost nothing.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from functools import cache
from typing import TypeAlias

__all__ = ["has_seccomp", "install_seccomp", "seccomp_program"]

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""What the kernel calls a machine, and its column in the tables below."""

Numbers: TypeAlias = dict[str, tuple[int | None, int | None]]

_NEVER: Numbers = {
    # They reach sockets and files without the calls that are looked at.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_by_handle_at": (304, 265),
    # Into the kernel.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "iopl": (172, None),
    "ioperm": (173, None),
    "syslog": (103, 116),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    # Keys of the person.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # What is mounted where, and whose view of it counts.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "fanotify_init": (300, 262),
    # The whole machine.
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    # Descriptors of other processes.
    "pidfd_getfd": (438, 438),
}
_SHARED_MEMORY: Numbers = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
"""Memory and queues that all processes of the person share, unless in name spaces of their own."""
_SEALED: Numbers = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
}
"""What a command needs to change something without writing to a file, or to disturb a process."""

_SIGNALS: Numbers = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
}

_SOCKET, _SOCKETPAIR, _IOCTL = (41, 198), (53, 199), (16, 29)
_PRLIMIT, _UNSHARE, _CLONE, _CLONE3 = (302, 261), (272, 97), (56, 220), (435, 435)
_CLONE_NEWUSER = 0x10000000
_INET, _INET6, _NETLINK = 2, 10, 16
_STREAM, _SEQPACKET = 1, 5
_TYPING = (0x5412, 0x541C)
"""``TIOCSTI`` and ``TIOCLINUX`` put words into a terminal as if the person had typed them."""
_ATTRIBUTES = (0x40086602, 0x40046602, 0x401C5820)
"""``FS_IOC_SETFLAGS``, the same of 32 bits, ``FS_IOC_FSSETXATTR``."""

# An instruction: code, how many to skip if true and if false, a constant.
_Line: TypeAlias = tuple[int, int, int, int]
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _ANSWER = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_ALLOW: _Line = (_ANSWER, 0, 0, 0x7FFF0000)
_X32 = 0x40000000
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2


def has_seccomp() -> bool:
    """Whether system calls can be refused on this kind of machine."""
    return sys.platform == "linux" and os.uname().machine in _ARCHITECTURES


@cache
def seccomp_program(
    *, internet: bool, shared_memory: bool, sealed: bool, signals: bool = True
) -> bytes:
    """The filter in the kernel's form, as ``bwrap --seccomp`` reads it.

    ``internet`` allows sockets of IP. ``shared_memory`` allows memory and queues of System V and
    POSIX, which are harmless in a name space of their own. ``signals`` allows to send some; their
    targets are limited elsewhere. Local sockets are never allowed, but for pairs of streams.
    """
    architecture, column = _ARCHITECTURES[os.uname().machine]
    lines: list[_Line] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        _refuse(_ENOSYS),  # another instruction set, whose numbers mean other calls
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),  # likewise
        _refuse(_ENOSYS),
        # What it asks for stands in memory, where it cannot be looked at; libraries fall back.
        *_when(_CLONE3[column], [_refuse(_ENOSYS)]),
    ]
    refused = dict(_NEVER)
    refused |= {} if shared_memory else _SHARED_MEMORY
    refused |= _SEALED if sealed else {}
    refused |= {} if signals else _SIGNALS
    for numbers in refused.values():
        lines += _when(numbers[column], [_refuse(_EPERM)])
    families = (_INET, _INET6, _NETLINK) if internet else ()
    orders = (*_TYPING, *(_ATTRIBUTES if sealed else ()))
    lines += _when(_SOCKET[column], _only(0, families, _EACCES))
    lines += _when(_SOCKETPAIR[column], _only(1, (_STREAM, _SEQPACKET), _EACCES, mask=0xF))
    lines += _when(_IOCTL[column], _none_of(1, orders))
    lines += _when(_PRLIMIT[column], _only(0, (0,), _EPERM))  # limits of other processes
    for numbers in (_UNSHARE, _CLONE):
        lines += _when(numbers[column], _without(0, _CLONE_NEWUSER))
    lines.append(_ALLOW)
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def install_seccomp(program: bytes) -> None:
    """Load a filter for this thread and what it starts; needs no-new-privileges.

    Raises:
        OSError: The kernel does not take it.
    """
    held = ctypes.create_string_buffer(program)
    description = struct.pack("@HP", len(program) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    done = libc.prctl(
        _PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), description, zero, zero
    )
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def _refuse(number: int) -> _Line:
    return (_ANSWER, 0, 0, 0x00050000 | number)


def _when(number: int | None, body: list[_Line]) -> list[_Line]:
    """What is answered for one call; ``body`` ends with an answer in every case."""
    return [] if number is None else [(_EQUAL, 0, len(body), number), *body]


def _argument(index: int) -> _Line:
    """Load the lower half of an argument: all of what the kernel itself looks at here."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _only(index: int, values: Iterable[int], number: int, *, mask: int = 0) -> list[_Line]:
    lines: list[_Line] = [_argument(index), *([(_AND, 0, 0, mask)] if mask else [])]
    for value in values:
        lines += [(_EQUAL, 0, 1, value), _ALLOW]
    return [*lines, _refuse(number)]


def _none_of(index: int, values: Iterable[int]) -> list[_Line]:
    lines: list[_Line] = [_argument(index)]
    for value in values:
        lines += [(_EQUAL, 0, 1, value), _refuse(_EPERM)]
    return [*lines, _ALLOW]


def _without(index: int, bit: int) -> list[_Line]:
    return [_argument(index), (_ANY_BIT, 0, 1, bit), _refuse(_EPERM), _ALLOW]
