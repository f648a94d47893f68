"""Plans: work that is written down as tasks, and carried out by agents of the fleet.

A client of the fleet's API, as the browser interface is. It decides no permission and runs no
agent. ``plan`` reads and checks a file, ``graph`` draws it. ``runner`` is the process that runs it:
the ``engine`` goes from step to step, ``conduct`` is what each step does, ``turn`` and ``check``
are its parts; ``run`` and ``progress`` are what is on disk, ``race_report`` compares contenders.
"""
