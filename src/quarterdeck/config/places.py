"""The directories of this program.

``QUARTERDECK_HOME`` puts everything under one directory. Without it, Linux follows the XDG
base directories and macOS uses ``~/Library``. Nothing is created until it is needed, and then
with access for the owner alone.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from quarterdeck.wire.private_files import make_private_directory

from .errors import UnusablePlaceError

__all__ = ["Places", "make_private"]

NAME = "quarterdeck"


class Places(NamedTuple):
    """Where our files are. All paths are absolute; none needs to exist."""

    config: Path
    """The user's own settings."""
    state: Path
    """What must survive: the journal, trust, logs."""
    cache: Path
    """What may be deleted at any time."""
    runtime: Path
    """Sockets and locks of running processes."""

    @classmethod
    def find(
        cls, environ: Mapping[str, str] | None = None, platform: str = sys.platform
    ) -> "Places":
        """Find the places from the environment; touches no file.

        Raises:
            UnusablePlaceError: neither ``QUARTERDECK_HOME`` nor a home directory is known.
        """
        environ = os.environ if environ is None else environ
        if own := environ.get("QUARTERDECK_HOME"):
            root = _expand(own, environ)
            return cls(
                config=root, state=root / "state", cache=root / "cache", runtime=root / "run"
            )
        if platform == "darwin":
            library = _home(environ) / "Library"
            support = library / "Application Support" / NAME
            return cls(
                config=support,
                state=support / "state",
                cache=library / "Caches" / NAME,
                runtime=support / "run",
            )
        state = _xdg(environ, "XDG_STATE_HOME", ".local/state")
        runtime = environ.get("XDG_RUNTIME_DIR", "")
        return cls(
            config=_xdg(environ, "XDG_CONFIG_HOME", ".config"),
            state=state,
            cache=_xdg(environ, "XDG_CACHE_HOME", ".cache"),
            runtime=Path(runtime) / NAME if runtime.startswith("/") else state / "run",
        )

    @property
    def config_file(self) -> Path:
        """The user's settings."""
        return self.config / "config.toml"

    @property
    def agents(self) -> Path:
        """The user's own descriptions of agents."""
        return self.config / "agents"

    @property
    def journal_file(self) -> Path:
        """The log of every session."""
        return self.state / "journal.db"

    @property
    def trust_file(self) -> Path:
        """Which directories the user trusts."""
        return self.state / "trust.json"

    @property
    def logs(self) -> Path:
        """Logs and crash reports."""
        return self.state / "logs"


def make_private(path: Path) -> Path:
    """Create a directory of ours, and those above it, for the owner alone; return it.

    One that exists is closed to others; those above it stay as they are.

    Raises:
        UnusablePlaceError: it cannot be made, belongs to another user, or something else has its
            name.
    """
    try:
        make_private_directory(path)
    except OSError as error:
        raise _unusable(path, error) from error
    return path


def _unusable(path: Path, error: OSError) -> UnusablePlaceError:
    reason = error.strerror or str(error)
    return UnusablePlaceError(
        f"cannot use the directory {str(path)!r}: {reason}; "
        f"make it writable or set QUARTERDECK_HOME to another one"
    )


def _xdg(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    # The specification: a path that is not absolute must be ignored.
    given = environ.get(variable, "")
    return (Path(given) if given.startswith("/") else _home(environ) / below_home) / NAME


def _home(environ: Mapping[str, str]) -> Path:
    if given := environ.get("HOME"):
        return Path(given).absolute()
    try:
        import pwd

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError) as error:
        raise UnusablePlaceError(
            "no home directory is known; set HOME or QUARTERDECK_HOME to a directory"
        ) from error


def _expand(path: str, environ: Mapping[str, str]) -> Path:
    if path == "~" or path.startswith("~/"):
        return _home(environ) / path[2:]
    return Path(path).absolute()
