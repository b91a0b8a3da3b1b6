"""Augmentations of the samples that clients train on, one idea per file."""
