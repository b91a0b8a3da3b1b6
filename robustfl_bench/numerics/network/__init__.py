"""The network of a run: losses and gradients of many clients at once."""
