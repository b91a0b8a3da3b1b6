"""What people look at: reports, figures, pictures and the inventory of both."""
