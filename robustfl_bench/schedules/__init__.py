"""Learning rate against the round."""
