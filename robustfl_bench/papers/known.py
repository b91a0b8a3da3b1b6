"""All tables that are described, by name."""

from robustfl_bench.papers import arfl, boba, brace, raga

TABLES = {table.name: table for paper in (boba, raga, brace, arfl) for table in paper.TABLES}
