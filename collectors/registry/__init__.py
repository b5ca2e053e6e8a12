"""The registry of all collectors: their names, flags, metrics and defaults. Only this package imports collectors."""
