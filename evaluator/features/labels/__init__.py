"""Node labels of violated rules: what to write, and the controller that writes it."""
