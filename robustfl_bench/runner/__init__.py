"""From the words of a command to a finished folder: ``config`` composes them, ``experiment`` answers or makes one
run, ``store`` keeps it, and ``sweeps`` and ``processes`` make many, on many cores."""
