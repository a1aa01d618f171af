"""Values to compare with: float64 references, tables of operators, models."""
