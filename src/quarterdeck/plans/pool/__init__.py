"""Plans on many machines: a pool of workers that share a Postgres database and a git remote."""
