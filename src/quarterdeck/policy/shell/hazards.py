"""Commands that deserve a person's eye each time.

``never_standing`` names those for which no "always" is offered, ``leading_words`` those for which
one with an open end is. ``reaching_word_of`` finds words that make a harmless program run another
or write elsewhere: a rule with an open end does not cover them unless it names them.
"""

from .line import Command
from .program_options import options_of, reaching_word
from .wrappers import ALL_SHELLS, INTERPRETERS

__all__ = ["deletes_words", "leading_words", "never_standing", "reaching_word_of"]

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

_EXACT_ONLY = frozenset(
    (
        *("curl", "wget", "scp", "rsync", "ssh", "sed", "tar", "zip", "unzip", "xargs", "env"),
        *("find", "npx", "uvx", "pipx", "mv", "cp", "ln", "install", "tee", "patch", "kubectl"),
        *("docker", "podman", "aws", "gcloud", "az", "gh", "terraform", "psql", "mysql", "sqlite3"),
        *("sort", "sftp", "ftp", "vim", "vi", "emacs", "nano", "less", "more", "man", "make"),
    )
)
_GIT_EXACT_ONLY = frozenset(
    ("push", "pull", "reset", "checkout", "rebase", "branch", "stash", "tag", "remote", "merge")
)

_MANY_THINGS = frozenset(
    (
        *("git", "npm", "pnpm", "yarn", "bun", "cargo", "go", "uv", "pip", "pip3", "poetry"),
        *("brew", "apt", "apt-get", "dotnet", "gradle", "mvn", "rustup", "deno", "swift", "mix"),
        *("bundle", "rails", "hatch", "pdm", "nix", "helm", "just", "task", "composer", "flutter"),
    )
)
"""Programs that do many things; the second word says which."""

_DELETING = frozenset(("rm", "rmdir", "mv", "shred", "unlink", "chmod", "chown", "chgrp", "trash"))


def never_standing(command: Command) -> str | None:
    """Say why no standing permission is offered for a command; None when one may be."""
    name = command.name
    if name is None:
        return "which program runs is not certain"
    if name in _DANGEROUS or name.startswith("mkfs."):
        return f"{name!r} can do lasting harm"
    words = [word.exact for word in command.words[1:]]
    for first, *rest in _DANGEROUS_FORMS:
        if name == first and _in_order(rest, words):
            return f"'{' '.join((first, *rest))}' can do lasting harm"
    if name == "git" and "push" in words and any((w or "").startswith("+") for w in words):
        return "a push with '+' can do lasting harm"
    if name in ALL_SHELLS or command.wrapping == "opaque":
        return f"what {name!r} runs is not certain"
    inline = name in INTERPRETERS or name.startswith("python")
    if inline and any(w in ("-c", "-e", "-p", "-r", "--eval", "-i", "-") for w in words):
        return f"{name!r} is given a program to run"
    if inline and not words:
        return f"{name!r} runs what it reads"
    return None


def leading_words(command: Command) -> int:
    """Return how many first words say what a command is, so that others may follow; 0: none."""
    name = command.name or ""
    words = [word.exact for word in command.words]
    if name in ALL_SHELLS or name in _EXACT_ONLY or command.wrapping != "none":
        return 0
    if name == "git" and (len(words) < 2 or words[1] in _GIT_EXACT_ONLY):
        return 0
    if name in INTERPRETERS or name.startswith("python"):
        count = 3 if words[1:2] == ["-m"] else 2
    else:
        count = 2 if name in _MANY_THINGS else 1
        if count == 2 and words[1:2] in (["run"], ["run-script"], ["compose"]):
            count = 3
    leading = words[:count]
    known = len(leading) == count and None not in leading
    plain = known and all(not (word or "").startswith("-") or word == "-m" for word in leading)
    return count if plain else 0


def reaching_word_of(command: Command, named: int) -> str | None:
    """Return a word beyond the first ``named`` that an open end must not cover.

    Options are held against those of the program, and of every other that the named words of a
    wrapper name: ``bash(uv run pytest:*)`` covers no option that ``pytest:*`` would not.
    """
    firsts = [0]
    if command.wrapping != "none":
        firsts.extend(range(1, min(named, len(command.words))))
    for first in firsts:
        if first and options_of(command.words[first].exact or "") is None:
            continue
        found = reaching_word(command.words, named, first)
        if found is not None:
            return found
    return None


def deletes_words(command: Command) -> bool:
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
