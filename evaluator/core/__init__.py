"""What every feature of the evaluator needs, and nothing that only one needs. Imports no feature."""
