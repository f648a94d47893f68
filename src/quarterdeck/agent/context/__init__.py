"""What a model's window holds, and what is done before it is full.

``token_estimate`` and ``token_meter`` measure, ``memory`` knows what must survive,
``cleared_results`` shortens old tool results, ``summary`` asks a model, ``compaction`` makes
entries of it, ``strategy`` chooses the step and ``window`` decides when.
"""
