"""What a model's window holds, and what is done before it is full.

``gauge`` measures, ``memory`` knows what must survive, ``clearing`` and ``cutting`` are pure rules,
``summary`` asks a model, ``compaction`` makes entries of it, ``keeper`` decides when.
"""
