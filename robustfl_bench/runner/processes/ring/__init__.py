"""The real ring: N processes, one per client, that pass chunks to their neighbours (BRACE, Fang et al., 2025)."""
