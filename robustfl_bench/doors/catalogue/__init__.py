"""The catalogue: every option of every config group, as listed by the command and as a page."""
