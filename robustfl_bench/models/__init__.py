"""Networks, one idea per file; PyTorch's default initialisation unless stated."""
