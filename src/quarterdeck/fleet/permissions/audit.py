"""The decisions in a log as a file that can be verified: each with a hash, chained to those before.

Pure but for the key. A value of a record is hashed by itself, with a salt; the content hash of the
record is over these hashes, and the chain over the content hashes. So a value can be left out,
with only its hash kept, and the chain stays valid. The salt follows from a key that stays with the
log: equal logs give equal chains, and a value that was left out cannot be guessed from its hash.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from quarterdeck.policy.permission_options import choice_of
from quarterdeck.wire.decoders import json_decoder
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    GrantRevoked,
    PermissionAnswered,
    PermissionApproved,
    PermissionAsked,
    PermissionViolated,
    SessionChanged,
    SessionSpawned,
    ToolCallStarted,
    UnknownEvent,
)
from quarterdeck.wire.permissions import Selected
from quarterdeck.wire.private_files import write_private
from quarterdeck.wire.record import Record, event_type
from quarterdeck.wire.redaction import mask_values

if TYPE_CHECKING:
    from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId

__all__ = [
    "AUDIT_EVENTS",
    "AuditCheck",
    "AuditError",
    "AuditExport",
    "load_audit_key",
    "verify_audit",
]

AUDIT_EVENTS = frozenset(
    {
        "grant_revoked",
        "permission_answered",
        "permission_approved",
        "permission_asked",
        "permission_violated",
        "session_changed",
        "session_spawned",
        "tool_call_started",
    }
)
"""The tags of the events that an export is made of."""

_DEEPEST = 12
_MOST_VALUES = 2_000
_MOST_CALLS = 200
_MOST_PROBLEMS = 100
_START = hashlib.sha256(b"quarterdeck audit 1").hexdigest()


class AuditError(QuarterdeckError):
    """The key of the audit cannot be read or made; the message names the file."""


class _Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: str = "quarterdeck audit"
    version: int = 1


class _Leaf(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value with its salt, or, where it was left out, its hash."""

    value: Any = UNSET
    salt: str | UnsetType = UNSET
    hash: str | UnsetType = UNSET


class _Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One decision."""

    record: int
    """Counted from 1."""
    seq: int
    """In the log."""
    time: int
    session: str
    type: str
    values: dict[str, _Leaf]
    content: str
    hash: str
    """Over the content and the hash before it."""


class _Trailer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    records: int
    head: str


_header, _line = msgspec.json.encode(_Header()), json_decoder(_Line)
_trailer = json_decoder(_Trailer)


def load_audit_key(path: Path) -> bytes:
    """The key that salts are made from; made where there is none. Blocks. Raises AuditError."""
    try:
        if not path.exists():
            write_private(path, secrets.token_hex(32) + "\n")
        key = bytes.fromhex(path.read_text("ascii").strip())
    except (OSError, ValueError) as error:
        raise AuditError(f"cannot use the key of the audit {str(path)!r}: {error}") from error
    if len(key) != 32:
        raise AuditError(f"the key of the audit {str(path)!r} is damaged: it has not 32 bytes")
    return key


class AuditExport:
    """Makes lines of a log's records, given in order; ``finish`` makes the last one.

    ``mask``: leave out values that look like secrets, also those of secret variables in
    ``environment``.
    """

    def __init__(
        self, key: bytes, *, mask: bool = False, environment: Mapping[str, str] | None = None
    ) -> None:
        self.head = _START
        """The hash of the last line so far."""
        self.records = 0
        self._key = key
        self._mask = mask
        self._environment = environment or {}
        self._names: dict[SessionId, str] = {}
        self._asked: dict[RequestId, tuple[SessionId, PermissionAsked]] = {}
        self._calls: dict[SessionId, dict[ToolCallId, ToolCallStarted]] = {}

    def start(self) -> bytes:
        """The first line."""
        return _header + b"\n"

    def finish(self) -> bytes:
        """The last line."""
        return msgspec.json.encode(_Trailer(records=self.records, head=self.head)) + b"\n"

    def add(self, records: Iterable[Record]) -> Iterator[bytes]:
        """The lines for the decisions among these records."""
        for record in records:
            match record.event:
                case SessionSpawned(name=name):
                    self._names[record.session] = name
                case SessionChanged(name=str() as name):
                    self._names[record.session] = name
                case ToolCallStarted(call=call) as started:
                    calls = self._calls.setdefault(record.session, {})
                    calls[call] = started
                    if len(calls) > _MOST_CALLS:
                        del calls[next(iter(calls))]
                case PermissionAsked(request=request) as asked:
                    self._asked[request] = (record.session, asked)
                case PermissionApproved() | PermissionAnswered() as event:
                    yield self._make_line(record, self._decision(record, event))
                case PermissionViolated() | GrantRevoked() as event:
                    yield self._make_line(record, msgspec.to_builtins(event))
                case UnknownEvent(reason=reason):
                    yield self._make_line(record, {"damaged": reason})
                case _:
                    pass

    def _decision(
        self, record: Record, event: PermissionApproved | PermissionAnswered
    ) -> dict[str, Any]:
        if isinstance(event, PermissionApproved):
            return self._approval(record, event)
        return self._answer(record, event)

    def _approval(self, record: Record, approved: PermissionApproved) -> dict[str, Any]:
        """What one of several people allowed; the decision is the answer that follows."""
        session, asked = self._asked.get(approved.request, (None, None))
        return {
            "request": approved.request,
            "call": approved.call,
            "option": approved.option,
            "by": {"kind": approved.by.kind, "name": approved.by.name},
            "group": approved.group,
            "shown": _show(asked if session == record.session else None),
        }

    def _answer(self, record: Record, answered: PermissionAnswered) -> dict[str, Any]:
        session, asked = self._asked.get(answered.request, (None, None))
        if session == record.session:
            del self._asked[answered.request]
        started = self._calls.get(record.session, {}).pop(answered.call, None)
        decision, option = "none", None
        if isinstance(answered.outcome, Selected):
            option = answered.outcome.option_id
            if asked is not None:
                decision = choice_of(asked.options, option).effect
            else:
                decision = "allow" if (answered.kind or "").startswith("allow") else "deny"
        return {
            "request": answered.request,
            "call": answered.call,
            "decision": decision,
            "option": option,
            "by": {"kind": answered.by.kind, "name": answered.by.name},
            "feedback": answered.feedback,
            "group": answered.group,
            "shown": _show(asked or started),
        }

    def _make_line(self, record: Record, facts: dict[str, Any]) -> bytes:
        facts = {"agent": self._names.get(record.session), **facts}
        values = {path: self._make_leaf(record.seq, path, value) for path, value in _flatten(facts)}
        self.records += 1
        values = dict(sorted(values.items()))
        line = _Line(
            record=self.records,
            seq=record.seq,
            time=record.time,
            session=record.session,
            type=event_type(record.event),
            values=values,
            content="",
            hash="",
        )
        content = _hash_content(line)
        self.head = _chain(self.head, content)
        whole = msgspec.structs.replace(line, content=content, hash=self.head)
        return msgspec.json.encode(whole) + b"\n"

    def _make_leaf(self, seq: int, path: str, value: Any) -> _Leaf:
        salt = hmac.digest(self._key, f"{seq}:{path}".encode(), "sha256")[:16].hex()
        leaf = _Leaf(value=value, salt=salt)
        if self._mask and self._is_secret(path, value):
            return _Leaf(hash=_hash_leaf(path, leaf))
        return leaf

    def _is_secret(self, path: str, value: Any) -> bool:
        if not isinstance(value, str):
            return False
        name = next((part for part in reversed(path.split("/")) if not part.isdigit()), path)
        field_ = {name: value}
        return mask_values(field_, self._environment) != field_


def _show(asked: PermissionAsked | ToolCallStarted | None) -> dict[str, Any] | None:
    """The request as it was shown; of a call that no one was asked about, the call."""
    if asked is None:
        return None
    shown: dict[str, Any] = {
        "title": asked.title,
        "kind": asked.kind,
        "name": asked.name,
        "content": msgspec.to_builtins(asked.content),
        "locations": [place.path for place in asked.locations],
        "input": asked.raw_input,
    }
    if isinstance(asked, PermissionAsked):
        shown["reason"] = asked.reason
        shown["options"] = [
            {"id": one.option_id, "name": one.name, "kind": one.kind} for one in asked.options
        ]
        shown["child"] = asked.child.name if asked.child is not None else None
    return shown


def _flatten(value: Any) -> list[tuple[str, Any]]:
    """Every value by its path; too deep or too many of them are one value each."""
    found: list[tuple[str, Any]] = []

    def visit(path: str, part: Any, depth: int) -> None:
        if part is None:
            return
        is_nested = isinstance(part, dict | list) and bool(cast("Any", part))
        if is_nested and (depth >= _DEEPEST or len(found) >= _MOST_VALUES):
            found.append((path, msgspec.json.encode(part, enc_hook=repr, order="sorted").decode()))
        elif isinstance(part, dict) and part:
            for key, one in cast("dict[Any, Any]", part).items():
                name = str(key).replace("~", "~0").replace("/", "~1")
                visit(f"{path}/{name}" if path else name, one, depth + 1)
        elif isinstance(part, list) and part:
            for place, one in enumerate(cast("list[Any]", part)):
                visit(f"{path}/{place}", one, depth + 1)
        else:
            found.append((path, cast("Any", part)))

    visit("", value, 0)
    return found


def _hash_leaf(path: str, leaf: _Leaf) -> str:
    if isinstance(leaf.hash, str):
        return leaf.hash
    data = msgspec.json.encode([path, leaf.salt, leaf.value])
    return hashlib.sha256(data).hexdigest()


def _hash_content(line: _Line) -> str:
    leaves = [[path, _hash_leaf(path, leaf)] for path, leaf in line.values.items()]
    facts = [line.record, line.seq, line.time, line.session, line.type, leaves]
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


def _chain(before: str, content: str) -> str:
    return hashlib.sha256(f"{before}\n{content}".encode()).hexdigest()


class AuditCheck(Struct, kw_only=True):
    """What is found in an export."""

    records: int = 0
    masked: int = 0
    """Values that were left out."""
    head: str = ""
    """The hash of the last record."""
    head_record: int | None = None
    """The record whose hash was given as the head; None: there is none, or none was given."""
    problems: list[str] = field(default_factory=list[str])
    """What was changed, dropped or reordered, in sentences; empty: nothing."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify_audit(lines: Iterable[bytes], head: str | None = None) -> AuditCheck:
    """Verify an export; ``lines`` with their line ends. Never raises for what is in them.

    ``head``: a hash that was kept elsewhere, of this export or of an earlier one of the same log.
    """
    check = _Verification(head.strip().lower() if head is not None else None)
    for number, line in enumerate(lines, 1):
        check.take(number, line)
    return check.finish()


class _Verification:
    def __init__(self, head: str | None) -> None:
        self._found = AuditCheck(head=_START)
        self._wanted = head
        self._expected = 1
        self._is_over = False
        self._is_begun = False
        if head == _START:
            self._found.head_record = 0

    def take(self, number: int, line: bytes) -> None:
        if not line.endswith(b"\n"):
            self._note(f"line {number} has no end: the file was cut off or changed")
        data = line.removesuffix(b"\n")
        if number == 1:
            self._is_begun = True
            if data != _header:
                self._note("line 1 is not the first line of an export of this version")
        elif self._is_over:
            self._note(f"line {number} comes after the end")
        elif data.startswith(b'{"records":'):
            self._end(number, data)
        else:
            self._record(number, data)

    def finish(self) -> AuditCheck:
        if not self._is_begun:
            self._note("the file is empty")
        elif not self._is_over:
            last = self._found.records
            self._note(f"the end is missing: records after record {last} may have been cut off")
        if self._wanted is not None and self._found.head_record is None:
            self._note(
                "the given head is not in this chain: a record was changed, added or dropped at or "
                "before it, or sessions were deleted from the log"
            )
        return self._found

    def _note(self, problem: str) -> None:
        if len(self._found.problems) < _MOST_PROBLEMS:
            self._found.problems.append(problem)

    def _record(self, number: int, data: bytes) -> None:
        try:
            line = _line.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._note(f"line {number} (record {self._expected}) cannot be read: it was changed")
            self._expected += 1
            return
        name = f"record {line.record} (line {number}, {line.seq} in the log)"
        self._check_order(line, name)
        is_whole = self._check_content(line, data, name)
        if is_whole and line.hash != _chain(self._found.head, line.content):
            self._note(
                f"{name} does not follow the record before it: one of the two was changed, moved "
                "or added, or records between them were dropped"
            )
        self._found.head = line.hash
        self._found.records += 1
        self._found.masked += sum(isinstance(leaf.hash, str) for leaf in line.values.values())
        if line.hash == self._wanted and is_whole:
            self._found.head_record = line.record

    def _check_order(self, line: _Line, name: str) -> None:
        expected = self._expected
        if line.record > expected:
            last = line.record - 1
            many = f"records {expected} to {last} are" if last > expected else f"record {last} is"
            self._note(f"{many} missing before {name}")
        elif line.record < expected:
            self._note(f"{name} stands where record {expected} should be: the order was changed")
        self._expected = line.record + 1

    def _check_content(self, line: _Line, data: bytes, name: str) -> bool:
        is_whole = (
            msgspec.json.encode(line) == data
            and list(line.values) == sorted(line.values)
            and all(_has_form(leaf) for leaf in line.values.values())
            and line.content == _hash_content(line)
        )
        if not is_whole:
            self._note(f"{name} was changed: its content is not what its hash says")
        return is_whole

    def _end(self, number: int, data: bytes) -> None:
        self._is_over = True
        try:
            end = _trailer.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._note(f"line {number}, the end, cannot be read: it was changed")
            return
        if msgspec.json.encode(end) != data:
            self._note(f"line {number}, the end, was changed")
        found = self._found
        if end.head != found.head or end.records != found.records:
            self._note(
                f"the end names {end.records} records with the head {end.head[:12]}…, and there "
                f"are {found.records} with {found.head[:12]}…: records were dropped or added"
            )


def _has_form(leaf: _Leaf) -> bool:
    if isinstance(leaf.hash, str):
        return leaf.value is UNSET and leaf.salt is UNSET
    return leaf.value is not UNSET and isinstance(leaf.salt, str)
