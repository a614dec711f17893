"""Who leads which group, what becomes of outcomes, and what is told about groups."""
