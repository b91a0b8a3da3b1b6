"""The ground that every room may use: errors, lines for the user, random streams, threads, digests of code."""
