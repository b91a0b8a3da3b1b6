"""Studies beside training: the inside of a round (probe), and rules on given updates (resilience)."""
