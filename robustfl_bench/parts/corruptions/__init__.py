"""Image corruptions, one per client: feature skew; ``conf/corruption`` holds a YAML for each choice."""

from robustfl_bench.base.public import facade

__getattr__, __dir__ = facade(__name__)
