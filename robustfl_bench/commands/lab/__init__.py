"""The verbs of the laboratory; ``commands.laboratory`` names them."""
