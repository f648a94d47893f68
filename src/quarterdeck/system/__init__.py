"""The operating system behind one port: files, processes, terminals."""
