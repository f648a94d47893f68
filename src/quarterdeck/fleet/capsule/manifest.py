"""What a capsule holds: the last member but the signature, ``manifest.json``.

Version 1. It is written strictly and read strictly; a capsule of a newer version is refused before
anything else of it is read.
"""

import re
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.usage import Cost, TokenUsage
from quarterdeck.wire.values import Value

from .errors import CapsuleRefusedError

__all__ = [
    "FORMAT",
    "VERSION",
    "CapsuleFile",
    "CapsuleGrant",
    "CapsuleLog",
    "CapsuleManifest",
    "CapsulePart",
    "CapsulePrompt",
    "CapsuleSession",
    "CapsuleWorkTree",
    "MaskedPlace",
    "OmittedItem",
    "decode_manifest",
    "encode_manifest",
    "is_session_id",
]

FORMAT = "quarterdeck-capsule"
VERSION = 1
_ID = re.compile(r"ses_[0-9a-z]{26}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class CapsulePart(Value, frozen=True, kw_only=True):
    """A part, named by its content."""

    sha256: str
    size: int


class CapsuleFile(Value, frozen=True, kw_only=True):
    """A file of a vendor's own."""

    name: str
    """Its place among the files of the session, with slashes."""
    sha256: str


class CapsulePrompt(Value, frozen=True, kw_only=True):
    """A prompt that waits; it is among the events."""

    message: str
    text: str


class CapsuleGrant(Value, frozen=True, kw_only=True):
    """A grant for the session that was in force; its answer is among the events."""

    id: str
    effect: str
    pattern: str


class CapsuleSession(Value, frozen=True, kw_only=True):
    """A session, and what was known of it when it was exported."""

    id: SessionId
    agent: str
    cwd: str = ""
    name: str | None = None
    title: str | None = None
    parent: SessionId | None = None
    model: str | None = None
    mode: str | None = None
    agent_session: str | None = None
    """The vendor's id of it."""
    agent_version: str | None = None
    started: int = 0
    """Microseconds since the epoch."""
    updated: int = 0
    records: int = 0
    usage: TokenUsage | None = None
    cost: Cost | None = None
    queue: tuple[CapsulePrompt, ...] = ()
    grants: tuple[CapsuleGrant, ...] = ()
    files: tuple[CapsuleFile, ...] = ()
    """The vendor's own session files."""
    work_tree: int | None = None
    """Its place in the manifest's ``work_trees``."""
    inside: str = ""
    """Where in the work tree it worked."""


class CapsuleLog(Value, frozen=True, kw_only=True):
    """A session with its tree of sub-agents, and all that happened in them, in order."""

    root: SessionId
    events: str
    """The part that has the records."""
    records: int
    sessions: tuple[CapsuleSession, ...]
    """The root first."""


class CapsuleWorkTree(Value, frozen=True, kw_only=True):
    """The state of a work tree: a commit, and the files as they were."""

    bundle: str
    """The part that is the git bundle."""
    tree: str
    """A commit on top of ``base`` with every file, uncommitted and untracked ones too."""
    base: str | None = None
    """The commit that was checked out; None: there was none yet."""
    branch: str | None = None
    object_format: Literal["sha1", "sha256"] = "sha1"
    needs: tuple[str, ...] = ()
    """Commits that the bundle builds on and does not have."""


class MaskedPlace(Value, frozen=True, kw_only=True):
    """Where something was masked."""

    where: str
    """``events of ses_…``, the name of a vendor's file, or the path of a file."""
    place: str
    """A record and a path in it, or a line."""


class OmittedItem(Value, frozen=True, kw_only=True):
    """Something that did not come along."""

    what: str
    why: str
    session: SessionId | None = None


class CapsuleManifest(Value, frozen=True, kw_only=True):
    """All of it."""

    format: Literal["quarterdeck-capsule"] = FORMAT
    version: int = VERSION
    program: str
    created: int
    """Microseconds since the epoch."""
    is_masked: bool
    logs: tuple[CapsuleLog, ...]
    parts: tuple[CapsulePart, ...]
    """In the order in which they are in the container."""
    work_trees: tuple[CapsuleWorkTree, ...] = ()
    masked: tuple[MaskedPlace, ...] = ()
    """The first thousand."""
    masked_count: int = 0
    omitted: tuple[OmittedItem, ...] = ()

    @property
    def sessions(self) -> tuple[CapsuleSession, ...]:
        """Every session."""
        return tuple(one for log in self.logs for one in log.sessions)


class _Head(Struct):
    format: Any = None
    version: Any = None


def is_session_id(text: str) -> bool:
    """Whether it is an id as we make them, which can be the name of a file."""
    return _ID.fullmatch(text) is not None


def encode_manifest(manifest: CapsuleManifest) -> bytes:
    """Its bytes: those that are signed."""
    data = msgspec.json.encode(
        {"format": manifest.format, "version": manifest.version}
        | cast("dict[str, Any]", msgspec.to_builtins(manifest))
    )
    return msgspec.json.format(data, indent=1) + b"\n"


def decode_manifest(data: bytes) -> CapsuleManifest:
    """Read and check a manifest.

    Raises:
        CapsuleRefusedError: it is no manifest, newer than this program, or contradicts itself.
    """
    try:
        head = decode_json(data, _Head)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CapsuleRefusedError("bad manifest", f"it is not JSON as expected: {error}") from error
    if head.format != FORMAT or not isinstance(head.version, int):
        raise CapsuleRefusedError("bad manifest", "it is not the manifest of a capsule")
    if head.version > VERSION:
        text = f"it has version {head.version}, and this program reads {VERSION}; update it"
        raise CapsuleRefusedError("newer version", text)
    try:
        manifest = decode_json(data, CapsuleManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CapsuleRefusedError("bad manifest", str(error)) from error
    if problem := _find_problem(manifest):
        raise CapsuleRefusedError("bad manifest", problem)
    return manifest


def _find_problem(manifest: CapsuleManifest) -> str | None:
    if manifest.version < 1:
        return f"there is no version {manifest.version}"
    digests = [part.sha256 for part in manifest.parts]
    if not all(map(_DIGEST.fullmatch, digests)) or len(set(digests)) != len(digests):
        return "its list of parts is not one of different digests"
    if any(part.size < 0 for part in manifest.parts):
        return "a part has a negative size"
    ids = [session.id for session in manifest.sessions]
    if not ids:
        return "it has no session"
    if not all(map(is_session_id, ids)) or len(set(ids)) != len(ids):
        return "its sessions do not have different ids of our form"
    if used := _used_parts(manifest) - set(digests):
        return f"it uses a part that it does not list: {min(used)[:80]!r}"
    if unused := set(digests) - _used_parts(manifest):
        return f"it lists a part that nothing uses: {min(unused)}"
    return _find_session_problem(manifest) or _find_tree_problem(manifest)


def _used_parts(manifest: CapsuleManifest) -> set[str]:
    found = {log.events for log in manifest.logs}
    found |= {file.sha256 for session in manifest.sessions for file in session.files}
    return found | {tree.bundle for tree in manifest.work_trees}


def _find_session_problem(manifest: CapsuleManifest) -> str | None:
    for log in manifest.logs:
        if not log.sessions or log.sessions[0].id != log.root:
            return f"the first session of the log {log.root!r} is another"
        if log.records < 1 or log.records != sum(session.records for session in log.sessions):
            return f"the records of the log {log.root!r} do not add up"
    for session in manifest.sessions:
        names = [file.name for file in session.files]
        if len(set(names)) != len(names):
            return f"session {session.id!r} has two files of one name"
        place = session.work_tree
        if place is not None and not 0 <= place < len(manifest.work_trees):
            return f"session {session.id!r} names a work tree that is not there"
        inside = session.inside
        if inside.startswith("/") or ".." in inside.split("/") or "\0" in inside:
            return f"session {session.id!r} worked outside of its work tree"
    return None


def _find_tree_problem(manifest: CapsuleManifest) -> str | None:
    for tree in manifest.work_trees:
        commits = (tree.tree, *tree.needs, *((tree.base,) if tree.base is not None else ()))
        if not all(map(_OBJECT.fullmatch, commits)):
            return "a work tree names a commit that is none"
    return None
