"""The samples of every client of a run, without training: as a table, a file and a picture."""
