"""What the server does with an aggregate: one step of an optimizer, for each model."""
