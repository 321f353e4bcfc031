"""How many deliberate mistakes in what decides about pods are caught by tests: ``make mutants``."""
