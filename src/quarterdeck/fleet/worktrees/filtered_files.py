"""Files behind a filter, such as those of Git LFS, in a new worktree.

Filters are programs of the repository's choice and never run. A file that is unchanged in the
person's checkout is copied from there; of others the worktree has what is committed, which is a
pointer, and a notice says so. Everything here blocks.
"""

import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from quarterdeck.agent.checkpoints.file_state import path_line
from quarterdeck.system.file_copy import TreeCopier
from quarterdeck.system.git.repository import GitRepository, read_whole
from quarterdeck.wire.events import NoticePosted

__all__ = ["copy_filtered", "list_entries"]

_SECONDS = 60.0
_MOST_INDEX = 2_000_000_000
_SHOWN = 10


def list_entries(repository: GitRepository) -> bytes:
    """The entries of an index: mode, object and stage, a tab, the name, a null. Raises GitError.

    They are not taken apart: of many thousands nearly always none is of interest.
    """
    return repository.ask(("ls-files", "-z", "--stage"), seconds=_SECONDS).data


def copy_filtered(source: GitRepository, made: GitRepository, entries: bytes) -> list[NoticePosted]:
    """Give a new worktree the content of files behind filters; say what is missing.

    ``entries``: of its index. Git finds the copies unchanged. Raises GitError, and OSError for a
    full disk.
    """
    wanted = _list_filtered(made, entries)
    if not wanted:
        return []
    unchanged = _unchanged_in(source, wanted)
    copier = TreeCopier(source.top, made.top, replaces=True)
    copied = {one.path for one in copier.copy(unchanged)}
    _refresh_index(made, copied)
    missing = sorted(set(wanted) - copied)
    if not missing:
        return []
    names = [path_line(one) for one in missing]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [
        NoticePosted(
            title=f"Filters did not run for: {', '.join(names[:_SHOWN])}{more}",
            severity="warning",
            description="The worktree has these files as they are committed, such as the pointers "
            "of Git LFS. Fill them with a command in the setting worktrees.setup, such as "
            "`git lfs pull`.",
        )
    ]


def _list_filtered(made: GitRepository, entries: bytes) -> dict[bytes, bytes]:
    """The files of a new worktree that a filter is for, each with its object."""
    lines = entries.split(b"\0") if b".gitattributes\0" in entries else ()
    named = [
        os.fsdecode(os.fsencode(made.top) + b"/" + line.partition(b"\t")[2])
        for line in lines
        if line.endswith((b"/.gitattributes", b"\t.gitattributes")) and line.startswith(b"100")
    ]
    named += [f"{made.common_dir}/info/attributes"]
    named += [made.settings[name] for name in ("core.attributesfile",) if name in made.settings]
    if not any(b"filter" in (read_whole(path, 10_000_000) or b"") for path in named):
        return {}
    objects = {
        line.partition(b"\t")[2]: line.split(b" ")[1]
        for line in entries.split(b"\0")
        if line.startswith(b"100")
    }
    words = ("check-attr", "-z", "--stdin", "filter")
    given = b"".join(name + b"\0" for name in objects)
    output = made.ask(words, given=given, seconds=_SECONDS).data.split(b"\0")
    values = zip(output[0::3], output[2::3], strict=False)
    unset = (b"unspecified", b"unset")
    return {name: objects[name] for name, value in values if value not in unset}


def _unchanged_in(source: GitRepository, wanted: dict[bytes, bytes]) -> list[bytes]:
    """Those that a checkout has in the same version, and unchanged by what git knows of them."""
    same = {
        name
        for line in list_entries(source).split(b"\0")
        if (name := line.partition(b"\t")[2]) in wanted and line.split(b" ")[1] == wanted[name]
    }
    words = ("diff-files", "-z", "--name-only")
    changed = set(source.ask(words, seconds=_SECONDS).data.split(b"\0"))
    return sorted(same - changed)


def _refresh_index(made: GitRepository, names: set[bytes]) -> None:
    """Note in the index how the copied files look, so that they count as unchanged.

    Git itself could only do so with the filter. An index in a form that is not known stays as it
    is: the files are compared by the agent's own git then.
    """
    data = read_whole(made.index, _MOST_INDEX)
    if not names or data is None or data[:4] != b"DIRC":
        return
    version, number = struct.unpack(">II", data[4:12])
    width = 32 if made.object_format == "sha256" else 20
    if version not in (2, 3):
        return
    changed = bytearray(data)
    top = os.fsencode(made.top)
    for start, name in _entries(data, number, width):
        if name in names:
            changed[start : start + 40] = _status_of(os.fsdecode(top + b"/" + name))
    digest = hashlib.sha256 if width == 32 else hashlib.sha1
    changed[-width:] = digest(bytes(changed[:-width])).digest()
    beside = Path(f"{made.index}.quarterdeck")
    beside.write_bytes(changed)
    beside.replace(made.index)


def _entries(data: bytes, number: int, width: int) -> Iterator[tuple[int, bytes]]:
    """Where each entry of an index begins, and its name."""
    at = 12
    for _ in range(number):
        flags_at = at + 40 + width
        (flags,) = struct.unpack(">H", data[flags_at : flags_at + 2])
        name_at = flags_at + (4 if flags & 0x4000 else 2)
        end = data.index(b"\0", name_at)
        yield at, data[name_at:end]
        at += (end - at) // 8 * 8 + 8


def _status_of(path: str) -> bytes:
    status = os.lstat(path)
    mode = 0o100755 if status.st_mode & 0o100 else 0o100644

    def parts(nanoseconds: int) -> tuple[int, int]:
        return nanoseconds // 1_000_000_000 & 0xFFFFFFFF, nanoseconds % 1_000_000_000

    fields = (
        *parts(status.st_ctime_ns),
        *parts(status.st_mtime_ns),
        *(status.st_dev, status.st_ino, mode, status.st_uid, status.st_gid, status.st_size),
    )
    return struct.pack(">10I", *(field & 0xFFFFFFFF for field in fields))
