"""Run folders on disk, and the tables and plots made from them. Knows records and files, and no training."""
