"""The command line: one module for each verb, and entry points that import only what the verb needs."""
