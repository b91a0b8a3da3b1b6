"""The laboratory, a plug-in of the runner: the arena that ranks rules, the papers' claims and their verdicts, studies
of a single rule. Without this folder all other commands work."""
