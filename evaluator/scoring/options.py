"""Flags of the scorers: which are on, on which ports, and each one's own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluator.scoring.plugins.congestion import CongestionOptions
from evaluator.scoring.plugins.pigeon_options import PigeonOptions
from evaluator.scoring.plugins.reward import RewardOptions
from evaluator.scoring.plugins.safe import SafeOptions
from plimsoll import flags
from plimsoll.flags import option

POLICIES = "policies"
"""What the extender that answers for policies is called where it stands among scorers."""


def _pairs(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Of name=value items, with commas between them."""
    for item in ",".join(given).split(",") if given else ():
        name, _, value = item.strip().partition("=")
        yield name, value


def _each(what: str, example: str, number: Callable[[str], int]) -> Callable[[str], str]:
    """A parser of scorers with a number each, which leaves the text as it is."""

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
        "scorers to answer for beside policies; repeatable, or with commas between them. Without any, the routes of "
        "scorers are not there and no pods are watched for them; an unknown name is answered with those there are",
        metavar="NAME",
        parse=flags.names,
    )
    scorer_ports: tuple[str, ...] = option(
        "scorerPorts",
        (),
        "further ports, each of which answers for one scorer alone, like safe=9011; repeatable, or with commas between "
        "them. Certificates and limits are those of --port, for each port anew",
        metavar="NAME=PORT",
        parse=_each("port", "safe=9011", flags.port),
    )
    scorer_weights: tuple[str, ...] = option(
        "scorerWeights",
        (),
        "what your KubeSchedulerConfiguration says as the weight of each extender, like safe=2, and policies=1 for that of "
        "policies; repeatable, or with commas between them. Only /explain?pod= looks at it, to add up what kube-scheduler "
        "will; who is not named counts as 1",
        metavar="NAME=N",
        parse=_each("weight", "safe=2", flags.count),
    )

    @property
    def enabled_scorers(self) -> tuple[str, ...]:
        """Their names, each once, in the order given."""
        return tuple(dict.fromkeys(name for given in self.scorers for name in given.split(",")))

    @property
    def ports_of_scorers(self) -> Mapping[str, int]:
        """The port of each scorer that has one of its own."""
        return {name: flags.port(port) for name, port in _pairs(self.scorer_ports)}

    @property
    def weights_of_scorers(self) -> Mapping[str, int]:
        """The weight of each extender that was told."""
        return {name: flags.count(weight) for name, weight in _pairs(self.scorer_weights)}

    def scorer_mistakes(self, taken: Mapping[int, str]) -> list[str]:
        """What is wrong with these settings together, each in a sentence; `taken` are ports, each with the flag that has it."""
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
