"""The command ``replay`` and its film."""
