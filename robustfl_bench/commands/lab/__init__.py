"""The verbs of the laboratory; ``commands.entry`` and ``commands.results`` name them."""
