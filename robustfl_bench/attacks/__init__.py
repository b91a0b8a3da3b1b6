"""Attacks, one idea per file; ``conf/attack`` holds a YAML of the same name for each."""
