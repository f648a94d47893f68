"""Commands that run other commands.

Where a wrapper's options are all known, one looks through it: ``timeout 5 pytest`` is judged as
``pytest``. Where they are not, it is opaque: what it runs cannot be known, and everything that it
might run is a candidate for deny rules.
"""

import re
from dataclasses import dataclass

from .line import Command, Wrapping
from .variables import is_harmless_assignment
from .words import Word, literal, unknown

__all__ = ["INTERPRETERS", "SHELLS", "Unwrapped", "runs_text", "unwrap"]

SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh", "ash", "mksh", "fish", "rbash"))
INTERPRETERS = frozenset(
    (
        *("python", "python2", "python3", "pypy", "pypy3", "ipython", "perl", "ruby", "node"),
        *("nodejs", "deno", "bun", "php", "lua", "osascript", "awk", "gawk", "mawk", "nawk"),
        *("sed", "gsed", "tclsh", "Rscript", "julia", "groovy", "expect", "pwsh", "powershell"),
    )
)
"""Programs whose arguments can hold a program."""

_OPAQUE = frozenset(
    (
        *("sudo", "doas", "su", "runuser", "pkexec", "eval", "source", ".", "trap", "ssh"),
        *("watch", "parallel", "script", "setsid", "chroot", "unshare", "nsenter", "flock"),
        *("strace", "ltrace", "gdb", "lldb", "busybox", "toybox", "coproc", "at", "batch"),
        *("entr", "bwrap", "firejail", "systemd-run", "proxychains", "torsocks", "faketime"),
        *("unbuffer", "rlwrap", "dbus-run-session", "xvfb-run", "caffeinate", "taskset"),
        *("numactl", "chrt", "prlimit", "sem", "tmux", "screen", "npx", "uvx", "pipx", "bunx"),
        *("direnv", "dotenv", "watchexec", "hyperfine", "perf", "valgrind", "rtk", "noglob"),
        *("nocorrect", "fd", "fdfind", "mapfile", "readarray", "complete", "compgen", "bind"),
    )
)
_RUNNERS = {
    "uv": ("run",),
    "npm": ("exec", "x"),
    "pnpm": ("exec", "dlx"),
    "yarn": ("exec", "dlx"),
    "bun": ("x",),
    "poetry": ("run",),
    "pipenv": ("run",),
    "pdm": ("run",),
    "hatch": ("run",),
    "rye": ("run",),
    "bundle": ("exec",),
    "mise": ("exec", "x"),
    "asdf": ("exec",),
    "conda": ("run",),
    "nix": ("run", "shell", "develop"),
}
"""Programs with a subcommand that runs the words after it."""

_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_SHELL_FLAGS = re.compile(r"-[leux]*c[leux]*")
_PLAIN_SHELL_FLAGS = re.compile(r"-[leux]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options of a wrapper that leave it transparent."""

    flags: str = ""
    valued: str = ""
    long_flags: tuple[str, ...] = ()
    long_valued: tuple[str, ...] = ()


_TRANSPARENT = {
    "time": _Options(flags="p"),
    "nice": _Options(valued="n", long_valued=("--adjustment",)),
    "nohup": _Options(),
    "timeout": _Options(
        flags="fpv",
        valued="ks",
        long_flags=("--foreground", "--preserve-status", "--verbose"),
        long_valued=("--kill-after", "--signal"),
    ),
    "gtimeout": _Options(valued="ks"),
    "stdbuf": _Options(valued="ioe"),
    "ionice": _Options(flags="t", valued="cn"),
    "command": _Options(),
    "builtin": _Options(),
    "exec": _Options(),
    "env": _Options(flags="i", valued="u", long_flags=("--ignore-environment",)),
    "xargs": _Options(
        flags="0rtx",
        valued="nPLdEsI",
        long_flags=("--null", "--no-run-if-empty", "--verbose", "--exit"),
        long_valued=("--max-args", "--max-procs", "--max-lines", "--delimiter"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwrapped:
    """What a command runs in turn."""

    wrapping: Wrapping = "none"
    inner: tuple[tuple[Word, ...], ...] = ()
    """The words of the commands that it runs."""
    assignments: tuple[Word, ...] = ()
    """Variables that it gives them."""
    inner_at: int = 0
    """The index at which the first of them begins; a rule must name a word there."""
    text: str | None = None
    """Shell text that it runs, in place of ``inner``."""
    candidates: tuple[tuple[Word, ...], ...] = ()
    """With ``opaque``: all that it might run."""


_NOTHING = Unwrapped()


def runs_text(command: Command) -> bool:
    """Say whether the command may run text from its input or arguments as shell commands."""
    if command.wrapping == "opaque" or command.name in SHELLS:
        return True
    return any(runs_text(inner) for inner in command.inner)


def unwrap(words: tuple[Word, ...]) -> Unwrapped:
    """Look through one command. Never raises."""
    exact = words[0].exact
    name = "" if exact is None else exact.rsplit("/", 1)[-1]
    if name in SHELLS:
        return _shell(words)
    if name == "find":
        return _find(words)
    if name in _TRANSPARENT:
        return _transparent(name, words)
    if name in _OPAQUE:
        return _opaque(words, 1)
    if name in _RUNNERS and len(words) > 1:
        runs = words[1].exact in _RUNNERS[name] or (words[1].value or "-").startswith("-")
        return _opaque(words, 2) if runs else _NOTHING
    return _NOTHING


def _opaque(words: tuple[Word, ...], inner_at: int) -> Unwrapped:
    suffixes = tuple(words[start:] for start in range(1, min(len(words), 40)))
    return Unwrapped(wrapping="opaque", inner_at=inner_at, candidates=suffixes)


def _shell(words: tuple[Word, ...]) -> Unwrapped:
    at = 1
    while at < len(words) and _PLAIN_SHELL_FLAGS.fullmatch(words[at].exact or ""):
        at += 1
    if len(words) == at + 2 and _SHELL_FLAGS.fullmatch(words[at].exact or ""):
        text = words[at + 1].exact
        if text is not None:
            return Unwrapped(wrapping="transparent", text=text, inner_at=at + 1)
    return _opaque(words, 1)


def _find(words: tuple[Word, ...]) -> Unwrapped:
    inner: list[tuple[Word, ...]] = []
    at = 1
    while at < len(words):
        if words[at].exact not in ("-exec", "-execdir", "-ok", "-okdir"):
            at += 1
            continue
        end = at + 1
        while end < len(words) and words[end].exact not in (";", "+"):
            end += 1
        if end >= len(words) or end == at + 1:
            return _opaque(words, 1)
        inner.append(tuple(_filled(word, "{}") for word in words[at + 1 : end]))
        at = end + 1
    if not inner:
        return _NOTHING
    return Unwrapped(wrapping="also", inner=tuple(inner), inner_at=1)


def _filled(word: Word, mark: str) -> Word:
    """Return the word as the inner command gets it, when ``mark`` is replaced by some text."""
    return unknown(word.raw) if mark in word.raw else word


def _transparent(name: str, words: tuple[Word, ...]) -> Unwrapped:
    options = _TRANSPARENT[name]
    if name == "command" and len(words) > 1 and words[1].exact in ("-v", "-V"):
        return _NOTHING
    replaced, at = _skip_options(options, words)
    if at == 0:
        return _opaque(words, 1)
    if name in ("timeout", "gtimeout"):
        if at >= len(words) or not _DURATION.fullmatch(words[at].exact or ""):
            return _opaque(words, 1)
        at += 1
    assignments: list[Word] = []
    while name == "env" and at < len(words) and "=" in words[at].raw:
        variable, _, value = (words[at].exact or "").partition("=")
        if not is_harmless_assignment(variable, value):
            assignments.append(words[at])
        at += 1
    return _inner(name, words, at, tuple(assignments), replaced)


def _inner(
    name: str, words: tuple[Word, ...], at: int, assignments: tuple[Word, ...], replaced: str
) -> Unwrapped:
    inner = words[at:]
    if name == "xargs":
        inner = inner or (literal("echo"),)
        if replaced:
            inner = tuple(_filled(word, replaced) for word in inner)
        else:
            inner = (*inner, unknown("…"))
    if not inner:
        return _opaque(words, 1) if name != "exec" else _NOTHING
    return Unwrapped(
        wrapping="transparent", inner=(inner,), assignments=assignments, inner_at=max(at, 1)
    )


def _skip_options(options: _Options, words: tuple[Word, ...]) -> tuple[str, int]:
    """Return the text that ``-I`` replaces, and the index after the options; 0: not certain."""
    replaced = ""
    at = 1
    while at < len(words):
        word = words[at]
        if word.value is None:
            return "", 0
        text = word.value
        if text == "--":
            return replaced, at + 1
        if not text.startswith("-") or text == "-" or word.exact is None:
            return replaced, at
        step = _option_length(options, text)
        if step == 0:
            return "", 0
        if text.startswith("-I"):
            replaced = text[2:] or (words[at + 1].exact or "" if at + 1 < len(words) else "")
            if not replaced:
                return "", 0
        at += step
    return replaced, at


def _option_length(options: _Options, text: str) -> int:
    """Return how many words an option takes; 0 when it is not known."""
    if text.startswith("--"):
        if text in options.long_flags:
            return 1
        if text.partition("=")[0] not in options.long_valued:
            return 0
        return 1 if "=" in text else 2
    if text[1] in options.valued:
        return 1 if len(text) > 2 else 2
    return int(all(sign in options.flags for sign in text[1:]))
