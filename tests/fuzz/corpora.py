"""The corpora: valid inputs of each target, and inputs that once failed."""

from pathlib import Path

FEATURES = Path(__file__).parents[1] / "evaluator/features"
CORPORA = {
    path.name: path
    for folder in (Path(__file__).parent, *sorted(FEATURES.iterdir()))
    for path in sorted((folder / "corpus").glob("*"))
}
"""Folders by the name of the target; those of features are beside their tests."""
