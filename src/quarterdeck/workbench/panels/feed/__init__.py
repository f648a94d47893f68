"""The feed panel: what all agents do."""
