"""What turns did to files, and going back.

``ports.TurnWatch`` is what the loop sees, ``service`` what the session sees. ``snapshot``
records a turn's files, ``git_snapshot`` work trees without touching the user's repository,
``file_state`` holds contents, ``restore`` puts them back, ``turn_history`` reads the log and
undoes, rewinds and redoes.
"""
