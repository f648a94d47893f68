"""The demo: two agents on a scripted model do a small real task in a scratch project.

Needs no key and no network. Everything but the model's words is real: files, a failing test,
permission requests, the log. It is cleared away again, unless the person keeps it.
"""

from .demo import PROMPT, begin_demo, demo_agents, end_demo, keep_demo

__all__ = ["PROMPT", "begin_demo", "demo_agents", "end_demo", "keep_demo"]
