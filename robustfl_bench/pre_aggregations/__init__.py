"""Transformations of the updates before the rule, one idea per file; ``conf/pre_aggregation`` holds a YAML for each."""
