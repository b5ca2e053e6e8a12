"""Flags of the scorers: enabled scorers, their ports, and the flags of each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluator.features.scorers.plugins.congestion import CongestionOptions
from evaluator.features.scorers.plugins.pigeon_options import PigeonOptions
from evaluator.features.scorers.plugins.reward import RewardOptions
from evaluator.features.scorers.plugins.safe import SafeOptions
from plimsoll import flags
from plimsoll.flags import option

POLICIES = "policies"
"""Name of the policies' extender among scorers, in --scorerWeights and /explain."""


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
class ScorerOptions(CongestionOptions, PigeonOptions, RewardOptions, SafeOptions):
    """The scorers' flags."""

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

    def scorer_mistakes(self, taken: Mapping[int, str]) -> list[str]:
        """Return the errors in these settings together, as sentences; `taken`: used ports, with the flag that uses each."""
        return [*self._port_mistakes(taken), *self._weight_mistakes()]

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
        found = [
            f"--scorerWeights: {name!r} is neither among --scorers nor {POLICIES!r}"
            for name in dict.fromkeys(names)
            if name not in (*self.enabled_scorers, POLICIES)
        ]
        if len(set(names)) < len(names):
            found.append("--scorerWeights: an extender has one weight")
        return found
