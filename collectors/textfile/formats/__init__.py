"""The text format of *.prom files: parsed, checked and merged. Pure."""
