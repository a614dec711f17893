"""`make mutants`: which small faults the tests do not find."""
