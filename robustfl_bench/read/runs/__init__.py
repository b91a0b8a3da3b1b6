"""Reading stored runs: as a table with a row per run, by condition, by configuration, and their values."""
