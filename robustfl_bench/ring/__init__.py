"""The real ring: N processes, each one client, that pass chunks to their neighbours (BRACE, Fang et al., 2025)."""
