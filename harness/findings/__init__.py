"""Claims with evidence: cells, breakpoints, validity and the verdict, from records and stats."""
