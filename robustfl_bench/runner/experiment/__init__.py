"""From a composed config to a finished run folder."""

from robustfl_bench.runner.experiment import rates as rates  # adds its resolver to those that presets know
