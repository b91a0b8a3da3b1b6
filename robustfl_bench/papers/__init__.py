"""Numbers that papers print, and the runs of each of their tables. The README here cites and explains them."""
