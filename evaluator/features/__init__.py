"""The features of the evaluator, one package each. A feature imports `core` and no other feature."""
