"""Who holds what in a run, looked at without training: as a table, as a file and as a picture."""
