"""Usage: tokens and money that the log shows, by agent, tree, project, vendor, model and day."""
