"""Review of what agents changed: changes, patches, comments, marks, acceptance and rejection.

``api`` declares the methods, ``patch``, ``selection`` and ``words`` are pure functions over texts,
``comparison`` asks git, ``changes`` finds what is compared, ``state`` folds the log,
``acceptance`` changes the index and the files, ``service`` puts them together.
"""
