"""The host: the process that owns the agents, and the socket at which faces find it.

``place`` says where socket and lock are; ``lock`` makes it one; ``credentials`` says who is at the
other end; ``methods`` is what can be asked, ``faults`` how it fails; ``server`` answers and
``subscription`` tells what happens; ``process`` is the life of the host, ``starting`` how a client
gets one; ``dialling`` connects.
"""
