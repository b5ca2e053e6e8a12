"""The scorers: their flags, and how the enabled ones are found and loaded."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

from evaluator.core.options import FeatureOptions
from evaluator.core.policy.vocabulary import Vocabulary
from evaluator.features.scorers.plugin import POLICIES, Scorer
from evaluator.features.scorers.plugins.congestion import Congestion, CongestionOptions
from evaluator.features.scorers.plugins.pigeon import Pigeon, PigeonOptions
from evaluator.features.scorers.plugins.reward import Reward, RewardOptions
from evaluator.features.scorers.plugins.safe import Safe, SafeOptions
from evaluator.features.scorers.plugins.template import Template
from plimsoll import flags
from plimsoll.flags import option
from plimsoll.text import one_line


def _pairs(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of comma-separated name=value items."""
    for item in ",".join(given).split(",") if given else ():
        name, _, value = item.strip().partition("=")
        yield name, value


def _each(what: str, example: str, number: Callable[[str], int]) -> Callable[[str], str]:
    """Return a parser that validates name=number items and returns the text unchanged."""

    def parse(text: str) -> str:
        for item in text.split(","):
            name, equals, value = item.strip().partition("=")
            if not name or not equals:
                raise ValueError(f"not a scorer and its {what}: {item!r} (write it like {example})")
            number(value)
        return text

    return parse


@dataclass(frozen=True, kw_only=True)
class ScorerOptions(CongestionOptions, PigeonOptions, RewardOptions, SafeOptions, FeatureOptions):
    """Scorers."""

    scorers: tuple[str, ...] = option(
        "scorers",
        (),
        "scorers to enable in addition to policies; repeatable, or separated by commas. Without any, scorer routes do not "
        "exist and pods are not watched for them; the error for an unknown name lists the known ones",
        metavar="NAME",
        parse=flags.names,
    )
    scorer_ports: tuple[str, ...] = option(
        "scorerPorts",
        (),
        "additional ports that serve a single scorer each, like safe=9011; repeatable, or separated by commas. Certificates "
        "and limits are those of --port, for each port separately",
        metavar="NAME=PORT",
        parse=_each("port", "safe=9011", flags.port),
    )
    scorer_weights: tuple[str, ...] = option(
        "scorerWeights",
        (),
        "weight of each extender in your KubeSchedulerConfiguration, like safe=2, or policies=1 for the policies' extender; "
        "repeatable, or separated by commas, 1 by default. Only /explain?pod= uses it, to compute kube-scheduler's totals",
        metavar="NAME=N",
        parse=_each("weight", "safe=2", flags.count),
    )

    @property
    def enabled_scorers(self) -> tuple[str, ...]:
        """Names of the enabled scorers without duplicates, in the order given."""
        return tuple(dict.fromkeys(name for given in self.scorers for name in given.split(",")))

    @property
    def ports_of_scorers(self) -> Mapping[str, int]:
        """Ports of the scorers that have their own."""
        return {name: flags.port(port) for name, port in _pairs(self.scorer_ports)}

    @property
    def weights_of_scorers(self) -> Mapping[str, int]:
        """Weights given by --scorerWeights."""
        return {name: flags.count(weight) for name, weight in _pairs(self.scorer_weights)}

    def ports(self) -> Mapping[int, str]:
        """Return the ports of scorers that have their own."""
        return dict.fromkeys(self.ports_of_scorers.values(), "--scorerPorts")

    def mistakes(self, taken: Mapping[int, str], vocabulary: Vocabulary) -> Iterator[str]:
        """Yield the errors in these settings together, as sentences; `taken`: used ports, with the flag that uses each."""
        yield from self._port_mistakes(taken)
        yield from self._weight_mistakes()

    def _port_mistakes(self, taken: Mapping[int, str]) -> Iterator[str]:
        ports = self.ports_of_scorers
        for name in ports:
            if name not in self.enabled_scorers:
                yield f"--scorerPorts: {name!r} is not among --scorers"
        if len(ports) < len(list(_pairs(self.scorer_ports))):
            yield "--scorerPorts: a scorer has one port of its own"
        used = [port for port in ports.values() if port]
        if len(set(used)) < len(used):
            yield "--scorerPorts: each scorer needs a port of its own"
        for port in used:
            if port in taken:
                yield f"--scorerPorts: {port} is the port of {taken[port]}"

    def _weight_mistakes(self) -> list[str]:
        names = [name for name, _ in _pairs(self.scorer_weights)]
        sentences = [
            f"--scorerWeights: {name!r} is neither among --scorers nor {POLICIES!r}"
            for name in dict.fromkeys(names)
            if name not in (*self.enabled_scorers, POLICIES)
        ]
        if len(set(names)) < len(names):
            sentences.append("--scorerWeights: an extender has one weight")
        return sentences


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
    scorers = {name: _make(name, options) for name in options.enabled_scorers}
    for kind, names in (
        ("predicate", [(name, scorers[name].predicates) for name in scorers]),
        ("priority", [(name, scorers[name].priorities) for name in scorers]),
    ):
        _check_names(kind, names)
    return scorers


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
