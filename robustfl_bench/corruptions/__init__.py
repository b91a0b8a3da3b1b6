"""Image corruptions, one per client: feature skew; ``conf/corruption`` holds a YAML for each choice."""
