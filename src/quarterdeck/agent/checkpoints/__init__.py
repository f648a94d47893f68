"""What turns did to files, and going back: ``seam`` is what the loop sees, ``front`` the session.

``shadow`` writes work trees down without touching the person's repository, ``preimages`` keeps
what our tools overwrite elsewhere, ``blobs`` holds contents, ``restoring`` puts them back,
``ledger`` reads the log, ``history`` goes back and forth.
"""
