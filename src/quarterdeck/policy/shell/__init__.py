"""Reading command lines: what runs, what is written, and what cannot be known.

``words`` reads one word, ``parse`` a whole line, ``wrappers`` looks through commands that run
other commands, ``readonly`` knows commands that change nothing, ``hazards`` those that no
standing permission is offered for.
"""
