"""The operating system behind one port: files, processes, terminals.

``port`` is the contract that tools and drivers use; ``local`` is this machine. Below it: ``paths``
confines a path to its roots, ``files`` reads and writes, ``process`` runs a command, ``ending``
and ``descendants`` leave nothing of it behind, ``watchdog`` does so when we are killed ourselves,
``ring`` bounds what a command prints, ``terminal`` is a command with its output.

This file stays empty: the watchdog process imports the room and must start in milliseconds.
"""
