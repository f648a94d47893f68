"""Fakes that ship: scripted, deterministic stand-ins for agents and models."""
