"""The log tail panel."""
