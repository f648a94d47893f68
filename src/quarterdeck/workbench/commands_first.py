"""Commands for beginning, trust, and what did not work."""

from .command import Command

__all__ = ["FIRST_COMMANDS"]

FIRST_COMMANDS = (
    Command(
        name="demo",
        help="two agents mend a small project, no key needed; demo keep, demo end",
        target="first:demo",
    ),
    Command(name="doctor", help="agents and keys on this machine", target="first:doctor"),
    Command(name="trust", help="let this workspace's files count", target="first:trust"),
    Command(name="untrust", help="let them count no longer", target="first:untrust"),
    Command(name="retry", help="start an agent that failed once more", target="mending:retry"),
    Command(
        name="fresh",
        help="the same kind of agent in the same place, without its past",
        target="mending:fresh",
    ),
    Command(
        name="install",
        help="copy the command that installs this agent",
        target="mending:copy_install",
    ),
    Command(name="login", help="log in to this agent", target="mending:log_in"),
)
