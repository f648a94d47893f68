"""Hosts on other machines, reached with OpenSSH. See ``docs/remote-hosts.md``."""
