"""Experiment trackers, one per file; ``conf/tracker`` holds a YAML for each."""
