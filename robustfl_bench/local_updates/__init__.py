"""What a client computes between receiving a model and sending an update."""
