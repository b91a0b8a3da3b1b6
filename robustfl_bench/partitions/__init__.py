"""Partitions of samples over clients, one idea per file."""
