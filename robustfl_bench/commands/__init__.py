"""The commands: every ``main``, parser, template and completion. Each task of a command has a file of its own."""
