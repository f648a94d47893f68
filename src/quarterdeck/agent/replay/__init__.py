"""Replay: our own agent runs again, on the model answers and tool results of a recorded session.

``check`` runs it and reports where it differs; ``recorded_run`` is what the log says; ``conductor``
keeps the order of the recording; ``stand_ins`` answer in place of the model, the tools, the hooks.
"""
