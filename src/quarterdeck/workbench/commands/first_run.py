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


_HOW = "demo runs it; there, demo does the next step, demo keep keeps it and demo end quits"


async def control_demo(app: "Workbench", words: str) -> None:
    """Run the demo in a workbench of its own; in that one do the next step, keep it, or leave.

    Raises QuarterdeckError.
    """
    discovery = app.context.discovery
    match words, discovery.guide:
        case "begin", None if discovery.demo is not None:
            from ..demo import DemoGuide

            discovery.guide = DemoGuide(app, discovery.demo, has_captions=discovery.has_captions)
            await discovery.guide.begin()
        case "", None:
            discovery.wants_demo = True
            app.exit()
        case "keep" | "end", None:
            app.show_message("no demo is running; /demo runs it")
        case "", guide if guide is not None:
            guide.skip()
        case "keep", guide if guide is not None:
            app.show_message(f"kept when you quit: {await guide.keep()}")
        case "end", _:
            app.exit()
        case _:
            app.show_message(f"unknown argument {words!r}: {_HOW}", True)


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
