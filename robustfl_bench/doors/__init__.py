"""Ways in for other programs: the Python functions, a call for torch.distributed, strategies for Flower and NVFlare,
checks for rules from outside, and the catalogue that describes every option."""
