"""The command line: a typed function for each verb, and entry points that import only what the verb needs."""
