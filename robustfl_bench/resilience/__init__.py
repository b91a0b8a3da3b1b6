"""Resilience of rules on given updates, without training: ``robustfl-bench resilience``."""
