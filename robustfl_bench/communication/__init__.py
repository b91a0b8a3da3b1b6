"""Communication of updates: bits per client and round, by the formulas of Table 1 of BRACE (Fang et al., 2025)."""
