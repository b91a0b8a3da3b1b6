"""Data sets: real files, checked, as tensors."""
