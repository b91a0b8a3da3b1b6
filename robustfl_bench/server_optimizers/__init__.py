"""Server optimizers: the server's step along an aggregate, for each model."""
