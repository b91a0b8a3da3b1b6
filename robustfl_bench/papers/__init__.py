"""Numbers that papers print, and what each of their tables is made of. The README here cites and explains them."""
