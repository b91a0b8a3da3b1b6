"""The ground: errors and their exit codes, the console, named random streams, fields and abilities of parts, digests
of code and files. It knows nothing of federated learning."""
