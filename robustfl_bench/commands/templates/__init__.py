"""Parts to start from: ``robustfl-bench new GROUP NAME`` copies the file of a config group."""
