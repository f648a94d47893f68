"""Many sessions under one host: supervisor, inbox, orchestrator tools."""
