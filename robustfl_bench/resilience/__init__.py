"""How resilient rules are on given updates, without training: ``robustfl-bench resilience``."""
