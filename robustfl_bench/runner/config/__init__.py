"""What defines a run: its settings, the options of conf/, and what presets make of them."""
