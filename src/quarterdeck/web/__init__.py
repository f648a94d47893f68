"""The browser interface: a server of pages and a JSON API, as one more client of the host."""
