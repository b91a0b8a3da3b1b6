"""What defines a run: its settings, the options of conf/, and what presets make of them."""

from robustfl_bench.config import rates as rates  # adds its resolver to those that presets know
