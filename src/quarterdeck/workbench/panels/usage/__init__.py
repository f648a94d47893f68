"""The usage panel."""
