"""The terminal face: shows the log, and sends what a person does. Holds no rule and no agent.

``stores`` are plain objects that hold what is shown; ``rendering`` turns them into lines of text
with roles; ``widgets`` and ``screens`` put those on the screen. ``feed`` is the one way in from the
fleet, ``fleet_actions`` the one way back. Only ``widgets``, ``screens``, ``feed`` and ``app`` know
Textual.
"""
