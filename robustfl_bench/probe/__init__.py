"""What happens inside a round: measured again, where a figure needs what no run records."""
