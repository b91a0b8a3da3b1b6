"""What there is to choose from: every option of every config group, as the command lists it and as a page."""
