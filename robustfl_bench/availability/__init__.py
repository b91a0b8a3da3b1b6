"""Which of a round's clients deliver, and how much of their local work they do; one idea per file."""
