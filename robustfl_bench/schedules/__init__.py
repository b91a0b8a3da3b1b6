"""Schedules: the learning rate as a function of the round."""
