"""Random sequences of what agents, a person and the fleet do to the trees of one project."""

import random
import re
import shlex
from dataclasses import dataclass, replace

__all__ = ["AGENTS", "FILES", "Edit", "Step", "find_marks", "make_sequence", "write_script"]

AGENTS = ("ann", "bob", "cat")
FILES = {
    "a": "".join(f"line {n}\n" for n in range(12)),
    "b b": "".join(f"word {n}\n" for n in range(12)),
    "sub/ü": "one\ntwo\nthree\n",
}
_MARK = re.compile(rb"(?:person|ann|bob|cat)-\d+-\d+")
_KINDS = ("line", "line", "line", "new", "new", "append", "delete", "mode", "move", "directory")
_KINDS += ("link", "binary", "odd")
_SINGLE = {
    "turn": 9.0,
    "overlap": 2,
    "commit": 3,
    "person": 5,
    "person-commit": 1,
    "person-stash": 0.5,
    "person-gc": 0.7,
    "undo": 4,
    "redo": 1,
    "rewind": 1.5,
    "land": 3,
    "discard": 1,
    "restore": 2,
    "remove": 1,
    "prune": 0.5,
}
"""How often each kind of step is chosen."""
_MOTIFS = (
    ("turn", "undo", "redo"),
    ("turn", "turn", "person", "undo", "redo"),
    ("turn", "undo", "person", "redo"),
    ("turn", "turn", "turn", "rewind", "person", "redo"),
    ("turn", "overlap", "undo", "undo", "redo", "redo"),
    ("overlap", "undo", "redo", "undo"),
    ("overlap", "person", "rewind"),
    ("turn", "commit", "turn", "land"),
    ("turn", "land", "turn", "land", "undo"),
    ("turn", "land", "remove", "undo"),
    ("turn", "commit", "remove", "turn"),
    ("turn", "commit", "land", "remove"),
    ("turn", "discard", "restore", "land"),
    ("turn", "land", "turn", "remove"),
    ("turn", "land", "person", "prune"),
    ("person-commit", "turn", "land", "undo"),
    ("turn", "person", "discard", "undo", "restore", "undo"),
    ("turn", "discard", "person-gc", "restore", "turn", "redo"),
    ("turn", "land", "prune", "restore"),
)
_NEEDS_WORKTREE = {"commit", "land", "discard", "remove"}
_KILLED = {"spawn": 1.0, "turn": 1, "overlap": 1, "commit": 1, "undo": 4, "redo": 6, "rewind": 6}
_KILLED |= {"land": 6, "discard": 6, "restore": 6, "remove": 5, "prune": 3}
"""How often a host is killed in each kind of step."""
_CHANGES = {"spawn": 70, "turn": 40, "commit": 30, "overlap": 70, "undo": 14, "redo": 14}
_CHANGES |= {"rewind": 18, "land": 160, "discard": 95, "restore": 42, "remove": 60, "prune": 60}
"""How many changes to the disk a step makes, more or less."""
_IDENTITY = "-c user.name=Agent -c user.email=agent@example.org"

Edit = tuple[str, str, int]
"""What is done, to which file, and a number for the rest."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something that is done."""

    what: str
    who: str = ""
    edits: tuple[Edit, ...] = ()
    others: tuple[Edit, ...] = ()
    """Of the second agent, when turns overlap."""
    how: str = ""
    force: bool = False
    back: bool = False
    """Then go back and forth once more."""
    killed_at: int | None = None
    """The host is killed before it makes its change to the disk of this number."""

    def __str__(self) -> str:
        fields = ("who", "edits", "others", "how", "force", "back", "killed_at")
        shown = [f"{name}={getattr(self, name)!r}" for name in fields if getattr(self, name)]
        return f"{self.what} {' '.join(shown)}"


def make_sequence(seed: int, *, kills: bool, longest: int) -> tuple[dict[str, str], list[Step]]:
    """Where each agent works (``own``, ``shared`` or with another agent), and the steps."""
    chance = random.Random(seed)
    layout = chance.choice(
        (
            {"ann": "own", "bob": "shared", "cat": "shared"},
            {"ann": "own", "bob": "shared", "cat": "ann"},
            {"ann": "own", "bob": "own", "cat": "ann"},
            {"ann": "own", "bob": "own", "cat": "shared"},
        )
    )
    steps = [Step(what="spawn", who=name, how=layout[name]) for name in AGENTS]
    length = chance.randint(6, longest)
    while len(steps) < length + len(AGENTS):
        more = _make_motif(chance) if chance.random() < 0.6 else [_make_step(chance)]
        steps += [replace(one, who=_find_one(one, layout, more)) for one in more]
    if kills:
        weights = [_KILLED.get(step.what, 0.0) for step in steps]
        for number in set(chance.choices(range(len(steps)), weights, k=chance.choice((1, 2, 2)))):
            at = chance.randint(1, _CHANGES[steps[number].what])
            steps[number] = replace(steps[number], back=False, killed_at=at)
    return layout, steps


def _find_one(step: Step, layout: dict[str, str], around: list[Step]) -> str:
    """An agent that can do what the step and those around it are about."""
    kinds = {one.what for one in around}
    able = [step.who, *(who for who in AGENTS if who != step.who)]
    if kinds & _NEEDS_WORKTREE:
        able = [who for who in able if layout[who] != "shared"]
    elif "overlap" in kinds:
        tops = {who: who if layout[who] == "own" else layout[who] for who in AGENTS}
        tops = {who: top for who, top in tops.items() if list(tops.values()).count(top) > 1}
        able = [who for who in able if who in tops] or able
    return able[0]


def _make_motif(chance: random.Random) -> list[Step]:
    """Steps that have more to do with each other, mostly of one agent."""
    who = chance.choice(AGENTS)
    made = [_make_step(chance, what) for what in chance.choice(_MOTIFS)]
    return [replace(one, who=who) if chance.random() < 0.9 else one for one in made]


def _make_step(chance: random.Random, what: str = "") -> Step:
    what = what or chance.choices(list(_SINGLE), list(_SINGLE.values()))[0]
    how = {
        "land": f"{chance.choice(('squash', 'merge', 'rebase'))} "
        f"{chance.choice(('topic', 'topic', 'main'))}",
        "person": chance.choice(("project", "ann", "where", "where")),
    }.get(what, "")
    has_edits = what in ("turn", "overlap", "person")
    return Step(
        what=what,
        who=chance.choice(AGENTS),
        edits=_make_edits(chance) if has_edits else (),
        others=_make_edits(chance) if what == "overlap" else (),
        how=how,
        force=what in ("undo", "rewind", "redo") and chance.random() < 0.15,
        back=chance.random() < 0.5,
    )


def _make_edits(chance: random.Random) -> tuple[Edit, ...]:
    return tuple(
        (chance.choice(_KINDS), chance.choice(list(FILES)), chance.randrange(12))
        for _ in range(chance.randint(1, 3))
    )


def write_script(mark: str, edits: tuple[Edit, ...]) -> str:
    """Shell commands that make these edits; everything that is written has a mark of its own."""
    lines = [_write_line(f"{mark}-{number}", *edit) for number, edit in enumerate(edits)]
    return "{ " + "; ".join(lines) + "; } 2>/dev/null; true"


def _write_line(written: str, what: str, name: str, line: int) -> str:
    file = shlex.quote(name)
    match what:
        case "line":
            return f"[ -f {file} ] && [ ! -L {file} ] && sed -i '{line + 1}s/.*/{written}/' {file}"
        case "new":
            return f"[ -d new{line % 4} ] || echo {written} > new{line % 4}"
        case "append":
            return f"[ -f {file} ] && echo {written} >> {file}"
        case "delete":
            return f"rm -rf {file}"
        case "mode":
            return f"[ -f {file} ] && chmod {'+x' if line % 2 else '-x'} {file}"
        case "move":
            return f"[ -f {file} ] && [ ! -e new{line % 4} ] && mv {file} new{line % 4}"
        case "directory":
            return f"rm -rf {file}; mkdir -p {file}; echo {written} > {file}/in"
        case "link":
            return f"ln -sfn {written} link{line % 2}"
        case "binary":
            return f"[ ! -d {file} ] && mkdir -p sub && printf 'x\\000{written}' > {file}"
        case _:
            return f"""echo {written} > "$(printf 'odd\\n\\377"x')" """


def commit_script(words: str) -> str:
    """Shell commands that commit everything, if there is something."""
    return f"git add -A && git {_IDENTITY} commit -q -m {shlex.quote(words)} >/dev/null; true"


def find_marks(data: bytes) -> set[bytes]:
    """The marks in something that was written."""
    return set(_MARK.findall(data))
