"""Agents that speak the Agent Client Protocol, version 1: the client's side.

``link`` starts the agent and holds the conversation; ``handshake`` opens, resumes or forks its
session; ``updates`` turns what it sends into events; ``requests`` answers its requests, with
``files`` and ``terminals`` behind it; ``settings`` knows and changes its modes, models
and options; ``extensions`` reads what agents put into ``_meta``; ``quirks`` names what some of them
do differently.
"""
