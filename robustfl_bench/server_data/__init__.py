"""The server's own labelled samples."""
