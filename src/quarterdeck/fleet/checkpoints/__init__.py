"""Checkpoints and undo for every agent.

``api`` declares the fleet's methods, ``service`` answers them; ``turn_snapshots`` records what
turns of agents that we drive do to files, ``work_trees`` the trees that several of them share,
``selective_restore`` takes one agent's changes back and lets later ones of others stay.
"""
