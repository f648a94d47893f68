"""Commands that deserve a person's eye each time.

``never_standing`` names those for which no "always" is offered, ``leading_words`` those for which
one with an open end is. ``reaching_word_of`` finds words that make a harmless program run another
or write elsewhere: a rule with an open end does not cover them unless it names them.
"""

from .command_line import ShellCommand
from .program_entry import ProgramOptions
from .program_options import options_of, reaching_word
from .wrappers import ALL_SHELLS, INTERPRETERS, RUNNERS

__all__ = ["deletes_words", "leading_words", "never_lasting", "reaching_word_of"]

_DANGEROUS = frozenset(
    (
        *("rm", "rmdir", "unlink", "shred", "dd", "mkfs", "fdisk", "parted", "wipefs", "truncate"),
        *(
            "sudo",
            "doas",
            "su",
            "pkexec",
            "runuser",
            "chown",
            "chmod",
            "chgrp",
            "chattr",
            "setfacl",
        ),
        *("kill", "pkill", "killall", "shutdown", "reboot", "halt", "poweroff", "systemctl"),
        *("launchctl", "crontab", "at", "mount", "umount", "iptables", "nft", "eval", "source"),
        *(".", "exec", "trap", "passwd", "useradd", "usermod", "visudo", "nc", "ncat", "netcat"),
        *("socat", "telnet", "security", "gpg", "ssh-keygen", "ssh-add", "history", "alias"),
    )
)
_DANGEROUS_FORMS = (
    ("git", "push", "--force"),
    ("git", "push", "-f"),
    ("git", "push", "--force-with-lease"),
    ("git", "push", "--delete"),
    ("git", "push", "-d"),
    ("git", "push", "--mirror"),
    ("git", "push", "--prune"),
    ("git", "reset", "--hard"),
    ("git", "clean"),
    ("git", "filter-branch"),
    ("git", "filter-repo"),
    ("git", "config"),
    ("git", "gc"),
    ("git", "prune"),
    ("git", "update-ref"),
    ("git", "checkout", "--"),
    ("git", "checkout", "."),
    ("git", "checkout", "-f"),
    ("git", "restore"),
    ("git", "branch", "-D"),
    ("git", "branch", "-d"),
    ("git", "branch", "--delete"),
    ("git", "tag", "-d"),
    ("git", "stash", "drop"),
    ("git", "stash", "clear"),
    ("git", "worktree", "remove"),
    ("git", "submodule", "foreach"),
    ("npm", "publish"),
    ("npm", "unpublish"),
    ("pnpm", "publish"),
    ("yarn", "publish"),
    ("cargo", "publish"),
    ("twine", "upload"),
    ("gh", "auth"),
    ("gh", "repo", "delete"),
    ("gh", "release", "delete"),
    ("docker", "system", "prune"),
    ("kubectl", "delete"),
    ("terraform", "apply"),
    ("terraform", "destroy"),
    ("find", "-delete"),
    ("find", "-fprint"),
    ("find", "-fprintf"),
    ("find", "-fls"),
)
"""The first word, then others anywhere after it in this order."""

_TEXT_TOOLS = frozenset(("sed", "gsed", "awk", "gawk", "mawk", "nawk"))
_CODE_OPTIONS = ("-c", "-e", "-E", "-p", "-r", "--eval", "--print")
_DELETING = frozenset(("rm", "rmdir", "mv", "shred", "unlink", "chmod", "chown", "chgrp", "trash"))


def never_lasting(command: ShellCommand) -> str | None:
    """Say why no standing permission is offered for a command; None when one may be."""
    name = command.name
    if name is None:
        return "which program runs is not certain"
    words = [word.exact for word in command.words[1:]]
    if (harm := _lasting_harm(name, words)) is not None:
        return f"{harm} can do lasting harm"
    if (inner := _run_by(command)) is not None:
        return never_lasting(inner)
    if name in ALL_SHELLS or command.wrapping == "opaque":
        return f"what {name!r} runs is not certain"
    if name in INTERPRETERS - _TEXT_TOOLS or name.startswith("python"):
        if _is_given_program(name, words):
            return f"{name!r} is given a program to run"
        if not words:
            return f"{name!r} runs what it reads"
    return None


def _lasting_harm(name: str, words: list[str | None]) -> str | None:
    """Return what of a command cannot be undone; None when nothing is known to be such."""
    if name in _DANGEROUS or name.startswith("mkfs."):
        return repr(name)
    for first, *rest in _DANGEROUS_FORMS:
        if name == first and _in_order(rest, words):
            return f"'{' '.join((first, *rest))}'"
    if name == "git" and "push" in words and any((w or "").startswith("+") for w in words):
        return "a push with '+'"
    return None


def _is_given_program(name: str, words: list[str | None]) -> bool:
    """Say whether a program is among an interpreter's arguments, or comes from its input."""
    options = options_of(name)
    codes = options.code if options is not None and options.code else _CODE_OPTIONS
    for word in words:
        if word is None or word in ("-", "-i"):
            return True
        if any(word.startswith(code) or _clustered(code, word) for code in codes):
            return True
    return False


def _run_by(command: ShellCommand) -> ShellCommand | None:
    """Return the command that a tool of the project runs: ``pytest`` of ``uv run pytest``."""
    at = command.inner_at
    if command.wrapping != "opaque" or command.words[0].exact not in RUNNERS:
        return None
    if not 0 < at < len(command.words) or (command.words[at].exact or "-").startswith("-"):
        return None
    return ShellCommand(words=command.words[at:])


def leading_words(command: ShellCommand) -> int:
    """Return how many first words say what a command is, so that others may follow; 0: none.

    Only what has an entry that says so: for another program the effect of more words is unknown.
    """
    if (inner := _run_by(command)) is not None:
        found = leading_words(inner)
        return found and command.inner_at + found
    words = [word.exact for word in command.words]
    name = words[0] or ""
    if command.wrapping != "none" or "/" in name:
        return 0
    options = options_of(name)
    if options is None:
        return 0
    if options.stops:
        return _leading_of_script(words, options.module)
    return _leading(options, words)


def _leading_of_script(words: list[str | None], module: str) -> int:
    """Return how many words name a script, or a module and what it does."""
    if module and words[1:2] == [module] and len(words) > 2:
        options = options_of(words[2] or "")
        found = 0 if options is None or options.stops else _leading(options, words[2:])
        return found and 2 + found
    return 2 if len(words) > 1 and not (words[1] or "-").startswith("-") else 0


def _leading(options: ProgramOptions, words: list[str | None]) -> int:
    if not options.sub:
        return int(options.open)
    sub = options.sub.get(words[1] or "") if len(words) > 1 else None
    if sub is None or not sub.open:
        return 0
    if words[1] not in ("run", "run-script"):
        return 2
    return 3 if len(words) > 2 and not (words[2] or "-").startswith("-") else 0


def reaching_word_of(command: ShellCommand, named: int) -> str | None:
    """Return a word beyond the first ``named`` that an open end must not cover.

    What a wrapper runs is compared with the options of that program: ``bash(uv run pytest:*)``
    covers no option that ``bash(pytest:*)`` would not.
    """
    if command.wrapping not in ("transparent", "opaque"):
        return reaching_word(command.words, named)
    firsts = range(1, min(named, len(command.words)))
    known = [at for at in firsts if options_of(command.words[at].exact or "") is not None]
    if not known:
        # Of what a project's own program does with options nothing is known.
        runner = command.words[0].exact in RUNNERS
        known = [min(named, len(command.words)) - 1 if runner else 0]
    for first in known:
        found = reaching_word(command.words, named, first)
        if found is not None:
            return found
    return None


def deletes_words(command: ShellCommand) -> bool:
    """Say whether a program deletes, moves or changes all that its words name."""
    return command.name in _DELETING


def _in_order(wanted: list[str], words: list[str | None]) -> bool:
    rest = iter(words)
    return all(any(word == want or _clustered(want, word) for word in rest) for want in wanted)


def _clustered(want: str, word: str | None) -> bool:
    """Say whether a one-letter option is among others: ``-f`` in ``-uf``."""
    if word is None or len(want) != 2 or want[0] != "-" or want[1] == "-":
        return False
    return word.startswith("-") and not word.startswith("--") and want[1] in word
