"""PromQL's functions, as plain functions of windows, vectors and numbers."""
