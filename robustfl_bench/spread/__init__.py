"""A run over several processes: each trains a part of the clients and aggregates a part of the columns."""
