"""What a session's log says of its turns: which can be undone, redone, and are still told."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    Checkpointed,
    ModelCallFinished,
    Prompted,
    Redone,
    Rewound,
)
from quarterdeck.wire.ids import TurnId
from quarterdeck.wire.record import Record

from ..conversation import Conversation
from ..parts import told_of

__all__ = ["Ledger", "TurnState", "begins_turn", "read_ledger", "retell", "told_records"]

_LONGEST = 80


class TurnState(Struct, frozen=True, kw_only=True):
    """A turn and what became of it."""

    number: int
    """Counted from 1 in the order of the log; never changes."""
    id: TurnId
    prompt: str
    """Its beginning, in one line."""
    time: int
    """Microseconds since the epoch."""
    checkpoint: Checkpointed | None = None
    """None: it changed no files."""
    is_told: bool = True
    """The model hears of it."""
    is_applied: bool = True
    """Its changes to files are in place."""


class Ledger(Struct, frozen=True, kw_only=True):
    """The turns of a session, oldest first."""

    turns: tuple[TurnState, ...]
    redoable: tuple[Rewound, ...]
    """What can be redone, the newest last."""
    moves: int
    """How often the session went back or forth."""


def read_ledger(records: Iterable[Record]) -> Ledger:
    """Read the log of one session. Turns that only answered a command are no turns here."""
    turns: dict[TurnId, TurnState] = {}
    done: list[tuple[Rewound, dict[TurnId, TurnState]]] = []
    moves = 0
    for record in records:
        moves += isinstance(record.event, Rewound | Redone)
        match record.event:
            case Prompted() as prompted if begins_turn(record, prompted):
                assert record.turn is not None
                turns[record.turn] = TurnState(
                    number=len(turns) + 1,
                    id=record.turn,
                    prompt=_line(prompted),
                    time=record.time,
                )
                done.clear()
            case Checkpointed(turn=turn) as event if turn in turns:
                turns[turn] = replace(turns[turn], checkpoint=event)
            case Rewound() as event if event.to in turns:
                done.append((event, dict(turns)))
                _rewind(turns, event)
            case Redone() if done:
                turns |= done.pop()[1]
            case _:
                pass
    redoable = tuple(event for event, _ in done)
    return Ledger(turns=tuple(turns.values()), redoable=redoable, moves=moves)


def told_records(records: Iterable[Record]) -> list[Record]:
    """The records that the conversation with the model is made of."""
    told: list[Record] = []
    undone: list[list[Record]] = []
    for record in records:
        match record.event:
            case Rewound(conversation=conversation, to=to):
                at = _place(told, to) if conversation else len(told)
                undone.append(told[at:])
                del told[at:]
            case Redone() if undone:
                told += undone.pop()
            case Prompted() as prompted if begins_turn(record, prompted):
                undone.clear()
                told.append(record)
            case _:
                told.append(record)
    return told


def retell(records: Iterable[Record]) -> Conversation:
    """The conversation, as it is told now; ids of calls that are no longer told stay taken."""
    kept = list(records)
    conversation = Conversation(record.event for record in told_records(kept))
    for record in kept:
        if isinstance(record.event, ModelCallFinished) and record.event.reply is not None:
            conversation.reserve(record.event.reply)
    return conversation


def begins_turn(record: Record, prompted: Prompted) -> bool:
    """Whether a turn of the model begins here."""
    return record.turn is not None and not prompted.steers and bool(told_of(prompted))


def _place(records: list[Record], turn: TurnId) -> int:
    for at, record in enumerate(records):
        if record.turn == turn:
            return at
    return len(records)


def _rewind(turns: dict[TurnId, TurnState], event: Rewound) -> None:
    first = turns[event.to].number
    for id_, turn in turns.items():
        turns[id_] = replace(
            turn,
            is_told=turn.is_told and not (event.conversation and turn.number >= first),
            is_applied=turn.is_applied and id_ not in event.files,
        )


def _line(prompted: Prompted) -> str:
    texts = (block.text for block in prompted.content if isinstance(block, TextContent))
    return " ".join(" ".join(texts).split())[:_LONGEST]
