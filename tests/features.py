"""The features of the evaluator that are there."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "evaluator/features"


def present(name: str) -> bool:
    """Return whether a feature was not deleted."""
    return (FOLDER / name).is_dir()
