"""Capsules: sessions in one file that another machine can take in; the format is in
``docs/capsule.md``.
"""
