"""Commands that run other commands, and variables that change which program runs.

Where a wrapper's options are all known, one looks through it: ``timeout 5 pytest`` is judged as
``pytest``. Where they are not, it is opaque: what it runs cannot be known, and everything that it
might run is a candidate for deny rules.

Only a bare name, or one in ``/bin`` or ``/usr/bin``, is looked through: ``./env`` is the project's
own program. For deny rules every path to one counts.
"""

import re

from msgspec import Struct

from .command_line import FED_FILE, ShellCommand, ShellWord, Wrapping, literal_word, unknown_word

__all__ = [
    "ALL_SHELLS",
    "INTERPRETERS",
    "RUNNERS",
    "SHELLS",
    "Unwrapped",
    "is_harmless_assignment",
    "is_harmless_name",
    "reads_program",
    "runs_text",
    "unwrap",
]

_HARMLESS = frozenset(
    (
        "LANG",
        "LANGUAGE",
        "TZ",
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "TERM",
        "COLUMNS",
        "LINES",
        "CI",
        "RUST_BACKTRACE",
        "RUST_LOG",
        "PYTHONUNBUFFERED",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHASHSEED",
        "PYTHONIOENCODING",
        "PYTHONUTF8",
        "GIT_TERMINAL_PROMPT",
        "GIT_OPTIONAL_LOCKS",
        "DEBIAN_FRONTEND",
        "NODE_ENV",
    )
)
_HARMLESS_VALUES = {"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat"}
_LOCAL_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_SPECIAL_LOCAL = re.compile(r".*_proxy|npm_config_.*|path|fpath|cdpath|prompt|psvar|_")
"""Lower case names with a meaning: proxies, npm's settings, and zsh's arrays."""


def is_harmless_name(name: str) -> bool:
    """Say whether a shell variable of that name changes no later command.

    By custom the environment is upper case; a lower case name is the line's own.
    """
    if name in _HARMLESS or name.startswith("LC_"):
        return True
    return bool(_LOCAL_NAME.fullmatch(name)) and not _SPECIAL_LOCAL.fullmatch(name)


def is_harmless_assignment(name: str, value: str | None) -> bool:
    """Say whether a variable given to a command changes nothing about what it runs."""
    if name in _HARMLESS or name.startswith("LC_"):
        return True
    return value is not None and _HARMLESS_VALUES.get(name) == value


SHELLS = frozenset(("bash", "sh", "dash"))
"""Shells whose text is read."""
ALL_SHELLS = SHELLS | frozenset(
    (
        *("zsh", "ksh", "ksh93", "mksh", "pdksh", "oksh", "ash", "hush", "rbash", "rksh", "rzsh"),
        *("fish", "csh", "tcsh", "nu", "xonsh", "elvish", "pwsh", "powershell", "rc", "es", "osh"),
        *("ysh", "yash", "posh", "ion", "murex", "oil", "scsh", "sash", "lksh", "bash-static"),
    )
)
"""Programs that run text as commands; those beyond ``SHELLS`` in a language that is not read."""
INTERPRETERS = frozenset(
    (
        *("python", "python2", "python3", "pypy", "pypy3", "ipython", "perl", "ruby", "node"),
        *("nodejs", "deno", "bun", "php", "lua", "luajit", "osascript", "awk", "gawk", "mawk"),
        *("nawk", "sed", "gsed", "tclsh", "wish", "rscript", "julia", "groovy", "expect"),
        *("irb", "erl", "elixir", "iex", "ghci", "runghc", "guile", "racket", "sbcl", "clojure"),
        *("clj", "bb", "ocaml", "swift", "kotlin", "scala", "jshell", "tsx", "ts-node", "octave"),
        *("vim", "vi", "nvim", "ex", "ed", "emacs", "gdb", "lldb", "sqlite3", "psql", "mysql"),
        *(
            "m4",
            "gnuplot",
            "dc",
            "ftp",
            "lftp",
            "ghc",
            "crystal",
            "nim",
            "janet",
            "janus",
            "raku",
            "gjs",
        ),
    )
)
"""Programs whose arguments or input can hold a program."""

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
        *("setpriv", "choom", "setarch", "linux32", "linux64", "i386", "i486", "i586", "i686"),
        *("x86_64", "uname26", "runcon", "sg", "newgrp", "start-stop-daemon", "capsh", "daemon"),
        *("daemonize", "fakeroot", "fakechroot", "proot", "dbus-launch", "systemd-inhibit"),
        *("systemd-nspawn", "machinectl", "setuidgid", "softlimit", "chpst", "envdir", "envuidgid"),
        *("setlock", "pgrphack", "argv0", "s6-setuidgid", "s6-softlimit", "s6-env", "execlineb"),
        *("foreground", "background", "su-exec", "gosu", "tini", "dumb-init", "catatonit"),
        *("cgexec", "cgclassify", "ip", "schroot", "dchroot", "debootstrap", "lxc", "lxc-attach"),
        *("lxc-execute", "incus", "nspawn", "vagrant", "distrobox", "toolbox", "flatpak", "snap"),
        *("crun", "runc", "runsc", "ctr", "apptainer", "singularity", "multipass", "wsl", "wine"),
        *("qemu-x86_64", "qemu-aarch64", "qemu-user", "box64", "rosetta", "rr", "uftrace"),
        *("catchsegv", "heaptrack", "memusage", "gprof", "operf", "bpftrace", "dtruss", "sandbox"),
        *("sandbox-exec", "launchctl", "open", "osascript", "xdotool", "tsocks", "proxychains4"),
        *("torify", "sshpass", "autossh", "mosh", "dsh", "pdsh", "pssh", "clush", "rsh", "rlogin"),
        *("expect", "unshare", "ts", "chronic", "ifne", "vidir", "pee", "zrun", "lckdo"),
        *("nodemon", "reflex", "watchman", "guard", "foreman", "overmind", "hivemind", "honcho"),
        *("supervisord", "pm2", "forever", "concurrently", "npm-run-all", "cross-env", "env-cmd"),
        *("dotenvx", "doppler", "op", "aws-vault", "chamber", "envchain", "teller", "with-contenv"),
        *("nvm", "volta", "fnm", "rtx", "devbox"),
        *("nix-shell", "guix", "logsave", "crontab", "anacron"),
        *("timelimit", "cpulimit", "trickle", "pkgexec", "dzdo", "sudoedit"),
        *("fc", "compdef", "zle", "sched", "autoload", "enable", "shopt", "setopt"),
        *("ld.so", "ldd", "rundll32", "cmd", "cmd.exe", "mshta", "wscript", "cscript", "runas"),
    )
)
_LOADER = re.compile(r"ld(?:-linux|-musl|64|-\d|\.so|-elf)[\w.-]*")
"""The dynamic loader, which runs the program that it is given."""
_SYSTEM_PLACES = ("/bin/", "/usr/bin/")
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
    "rbenv": ("exec",),
    "pyenv": ("exec",),
    "nodenv": ("exec",),
    "conda": ("run",),
    "nix": ("run", "shell", "develop"),
}
"""Programs with a subcommand that runs the words after it."""

RUNNERS = frozenset((*_RUNNERS, "npx", "uvx", "bunx", "pipx"))
"""Tools of a project that run the programs of its own environment."""
_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_SHELL_FLAGS = re.compile(r"-[leux]*c[leux]*")
_PLAIN_SHELL_FLAGS = re.compile(r"-[leux]+")


class _Options(Struct, frozen=True, kw_only=True):
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


class Unwrapped(Struct, frozen=True, kw_only=True):
    """What a command runs in turn."""

    wrapping: Wrapping = "none"
    inner: tuple[tuple[ShellWord, ...], ...] = ()
    """The words of the commands that it runs."""
    assignments: tuple[ShellWord, ...] = ()
    """Variables that it gives them."""
    inner_at: int = 0
    """The index at which the first of them begins; a rule must name a word there."""
    text: str | None = None
    """Shell text that it runs, in place of ``inner``."""
    candidates: tuple[tuple[ShellWord, ...], ...] = ()
    """With ``opaque``: all that it might run."""
    texts: tuple[str, ...] = ()
    """With ``opaque``: text that it might run as a command line."""
    unwritten: bool = False
    """With ``opaque``: it may run what is not written in its words."""


_NOTHING = Unwrapped()


def runs_text(command: ShellCommand) -> bool:
    """Say whether the command may run text from its input or arguments as shell commands."""
    if command.wrapping == "opaque" or command.name in ALL_SHELLS or reads_program(command.words):
        return True
    return any(runs_text(inner) for inner in command.inner)


def reads_program(words: tuple[ShellWord, ...]) -> bool:
    """Say whether a shell or interpreter runs what it reads from its input."""
    name = _program(words[0])
    if name in ("source", "."):
        return len(words) > 1 and (words[1].value is None or words[1].value in _INPUTS)
    if name not in ALL_SHELLS and not _interprets(name):
        return False
    for word in words[1:]:
        value = word.value
        if value is None or value in _INPUTS:
            return True
        if value.startswith(("-c", "-e", "-m", "-E", "-r", "-p", "-f", "--eval", "--print")):
            return False
        if not value.startswith(("-", "+")):
            return False
        if "s" in value and not value.startswith("--") and name in ALL_SHELLS:
            return True
        if "c" in value and not value.startswith("--") and name in ALL_SHELLS:
            return False
    return name not in ("awk", "gawk", "mawk", "nawk", "sed", "gsed")


_INPUTS = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", FED_FILE))


def _program(word: ShellWord) -> str:
    return (word.value or "").rsplit("/", 1)[-1].lower()


def _interprets(name: str) -> bool:
    return name in INTERPRETERS or name.startswith(("python", "pypy", "perl", "ruby", "lua"))


def unwrap(words: tuple[ShellWord, ...]) -> Unwrapped:
    """Look through one command. Never raises."""
    exact = words[0].exact
    if exact is None:
        return _NOTHING
    directory, _, name = exact.rpartition("/")
    if directory and directory + "/" not in _SYSTEM_PLACES:
        return _opaque(words, 1) if _runs_others(name, words) else _NOTHING
    if name in SHELLS:
        return _shell(words)
    if name == "find":
        return _find(words)
    if name in _TRANSPARENT:
        return _transparent(name, words)
    if name in _RUNNERS and len(words) > 1:
        runs = words[1].exact in _RUNNERS[name] or (words[1].value or "-").startswith("-")
        if runs or name not in _OPAQUE:
            return _opaque(words, 2) if runs else _NOTHING
    # A host comes first, and what runs there after it.
    at = 2 if name == "ssh" and len(words) > 1 and (words[1].exact or "-")[0] != "-" else 1
    return _opaque(words, at) if _runs_others(name, words) else _NOTHING


def _runs_others(name: str, words: tuple[ShellWord, ...]) -> bool:
    lowered = name.lower()
    known = lowered in _OPAQUE or lowered in ALL_SHELLS or lowered in _TRANSPARENT
    if known or _LOADER.fullmatch(lowered):
        return True
    executes = ("-exec", "-execdir", "-ok", "-okdir")
    return lowered == "find" and any(word.exact in executes for word in words)


def _opaque(words: tuple[ShellWord, ...], inner_at: int) -> Unwrapped:
    suffixes = tuple(words[start:] for start in range(1, min(len(words), 40)))
    # What stands in for a name found later ("rm {}") is not known, but the rest of it is.
    values = [word.value or word.raw.strip("'\"") for word in words[1:40]]
    texts = [" ".join(values)]
    for value in values:
        texts.extend((value, value.partition("=")[2]))
        if value.startswith("-") and value[1:2] != "-":
            texts.append(value[2:])
    return Unwrapped(
        wrapping="opaque",
        inner_at=inner_at,
        candidates=suffixes,
        texts=tuple(dict.fromkeys(text for text in texts if text)),
        unwritten=_is_unwritten(words),
    )


def _is_unwritten(words: tuple[ShellWord, ...]) -> bool:
    """Say whether an opaque wrapper may run a program whose name is known only at run time."""
    name = _program(words[0])
    if name in ("eval", "trap", "su", "ssh", "watch", "source", ".") or name in ALL_SHELLS:
        return any(word.value is None for word in words[1:])
    for word in words[1:]:
        value = word.value
        if value is None or word.glob or value == "{}":
            return True
        if not value.startswith("-") and "=" not in value:
            return False
    return name in ("parallel", "sem")


def _shell(words: tuple[ShellWord, ...]) -> Unwrapped:
    at = 1
    while at < len(words) and _PLAIN_SHELL_FLAGS.fullmatch(words[at].exact or ""):
        at += 1
    if len(words) == at + 2 and _SHELL_FLAGS.fullmatch(words[at].exact or ""):
        text = words[at + 1].exact
        if text is not None:
            return Unwrapped(wrapping="transparent", text=text, inner_at=at + 1)
    return _opaque(words, 1)


def _find(words: tuple[ShellWord, ...]) -> Unwrapped:
    inner: list[tuple[ShellWord, ...]] = []
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


def _filled(word: ShellWord, mark: str) -> ShellWord:
    """Return the word as the inner command gets it, when ``mark`` is replaced by some text."""
    return unknown_word(word.raw) if mark in word.raw else word


def _transparent(name: str, words: tuple[ShellWord, ...]) -> Unwrapped:
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
    assignments: list[ShellWord] = []
    while name == "env" and at < len(words) and "=" in words[at].raw:
        variable, _, value = (words[at].exact or "").partition("=")
        if not is_harmless_assignment(variable, value):
            assignments.append(words[at])
        at += 1
    return _inner(name, words, at, tuple(assignments), replaced)


def _inner(
    name: str,
    words: tuple[ShellWord, ...],
    at: int,
    assignments: tuple[ShellWord, ...],
    replaced: str,
) -> Unwrapped:
    inner = words[at:]
    if name == "xargs":
        inner = inner or (literal_word("echo"),)
        if replaced:
            inner = tuple(_filled(word, replaced) for word in inner)
        else:
            inner = (*inner, unknown_word("…"))
    if not inner:
        return _opaque(words, 1) if name != "exec" else _NOTHING
    return Unwrapped(
        wrapping="transparent", inner=(inner,), assignments=assignments, inner_at=max(at, 1)
    )


def _skip_options(options: _Options, words: tuple[ShellWord, ...]) -> tuple[str, int]:
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
