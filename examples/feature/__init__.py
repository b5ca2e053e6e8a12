"""The example: what the feature does, in a sentence."""
