"""Commands of the first run: the demo, the doctor and workspace trust."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..app import Workbench

__all__ = [
    "ask_trust",
    "choose_default_mode",
    "control_demo",
    "revoke_trust",
    "show_doctor",
    "show_home",
]


async def control_demo(app: "Workbench", words: str) -> None:
    """Start the demo, keep it, or delete it."""
    await app.first_run.control_demo(words)


async def show_doctor(app: "Workbench", _: str) -> None:
    """Show every agent with its version, or how to install it, and the keys."""
    await app.first_run.show_doctor()


def show_home(app: "Workbench", _: str) -> None:
    """Show the home screen."""
    app.context.go_home()
    app.main.panel.enter()


async def choose_default_mode(app: "Workbench", words: str) -> None:
    """Write a mode into the settings, for new agents. Raises QuarterdeckError."""
    await app.first_run.choose_mode(words.strip())


async def ask_trust(app: "Workbench", _: str) -> None:
    """Ask about this workspace now, whatever was answered before."""
    await app.first_run.ask_trust()


async def revoke_trust(app: "Workbench", _: str) -> None:
    """Stop trusting this workspace."""
    await app.first_run.revoke_trust()
