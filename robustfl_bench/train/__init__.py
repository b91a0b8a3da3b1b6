"""Training: the clients and their samples, the network and its gradients, the rounds and their records."""
