"""The one thing that no vector may hold: a label set twice."""

from agent.rules.labels import Labels
from agent.rules.values import EvaluationError, Vector


def distinct(vector: Vector) -> Vector:
    """The vector as it is; EvaluationError where a label set is in it twice.

    That comes of functions that take labels away, the metric's name above all: `abs({__name__=~"a|b"})`.
    """
    if len(vector) > 1 and len({labels for labels, _ in vector}) < len(vector):
        seen: set[Labels] = set()
        for labels, _ in vector:
            if labels in seen:
                raise EvaluationError(
                    f"vector cannot contain metrics with the same labelset: {dict(labels)} is there twice"
                )
            seen.add(labels)
    return vector
