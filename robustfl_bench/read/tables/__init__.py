"""Tables of runs, beside published numbers where a paper prints them, and verdicts on its claims."""
