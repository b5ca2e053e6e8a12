"""Registry of scorers: built-in ones, and those of other distributions by entry point; loaded if enabled."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import metadata

from evaluator.features.scorers.options import ScorerOptions
from evaluator.features.scorers.plugin import Scorer
from evaluator.features.scorers.plugins.congestion import Congestion
from evaluator.features.scorers.plugins.pigeon import Pigeon
from evaluator.features.scorers.plugins.reward import Reward
from evaluator.features.scorers.plugins.safe import Safe
from evaluator.features.scorers.plugins.template import Template
from plimsoll.text import one_line

Factory = Callable[[ScorerOptions], Scorer]

BUILT_IN: Mapping[str, Factory] = {
    "congestion": Congestion,
    "pigeon": Pigeon,
    "reward": lambda _: Reward(),
    "safe": Safe,
    "template": lambda _: Template(),
}
"""The built-in scorers: a factory by name."""

GROUP = "plimsoll.scorers"
"""Entry point group of external scorers: each entry is a factory without arguments."""

_MEMBERS = ("predicates", "priorities", "metrics", "score")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


class ScorersError(Exception):
    """An enabled scorer cannot be loaded; the message says why."""


def load(options: ScorerOptions) -> dict[str, Scorer]:
    """Return the enabled scorers by name, in the order of the flags. Raises ScorersError."""
    found = {name: _make(name, options) for name in options.enabled_scorers}
    for kind, names in (
        ("predicate", [(name, found[name].predicates) for name in found]),
        ("priority", [(name, found[name].priorities) for name in found]),
    ):
        _check_names(kind, names)
    return found


def known() -> list[str]:
    """Return the names of all installed scorers, sorted."""
    return sorted({*BUILT_IN, *(point.name for point in metadata.entry_points(group=GROUP))})


def _make(name: str, options: ScorerOptions) -> Scorer:
    if (factory := BUILT_IN.get(name)) is not None:
        return factory(options)
    points = list(metadata.entry_points(group=GROUP, name=name))
    if not points:
        raise ScorersError(f"no scorer {name!r}; known: {', '.join(known())}")
    if len({point.value for point in points}) > 1:
        owners = " and ".join(sorted(map(_owner, points)))
        raise ScorersError(f"more than one scorer {name!r}: from {owners}")
    return _load(points[0])


def _load(point: metadata.EntryPoint) -> Scorer:
    what = f"scorer {point.name!r} of {_owner(point)} ({point.value})"
    try:
        scorer = point.load()()
    except Exception as error:
        raise ScorersError(f"{what} cannot be loaded: {_description(error)}") from error
    if absent := [member for member in _MEMBERS if not hasattr(scorer, member)]:
        raise ScorersError(f"{what} is not a scorer: it lacks {', '.join(absent)}")
    loaded: Scorer = scorer
    return loaded


def _description(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(str(error))}"


def _owner(point: metadata.EntryPoint) -> str:
    return point.dist.name if point.dist else "an unknown distribution"


def _check_names(kind: str, named: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Check that names are valid in URL paths and unique over all scorers."""
    owners: dict[str, str] = {}
    for scorer, names in named:
        for name in _strings(names, scorer):
            if not _NAME.fullmatch(name):
                raise ScorersError(f"scorer {scorer!r}: {name!r} is not a valid name of a {kind}")
            if (other := owners.setdefault(name, scorer)) != scorer:
                raise ScorersError(f"scorers {other!r} and {scorer!r} both have a {kind} {name!r}")


def _strings(names: object, scorer: str) -> Collection[str]:
    if isinstance(names, str) or not isinstance(names, Collection):
        raise ScorersError(f"scorer {scorer!r}: its names must be a sequence of strings")
    return [str(name) for name in names]
