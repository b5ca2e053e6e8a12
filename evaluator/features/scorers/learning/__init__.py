"""What the scorer `reward` learns: outcomes of pods, the values derived from them, and how they are stored."""
