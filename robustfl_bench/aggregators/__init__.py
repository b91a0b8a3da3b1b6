"""Robust aggregation rules, one idea per file; ``conf/aggregator`` holds a YAML of the same name for each."""
