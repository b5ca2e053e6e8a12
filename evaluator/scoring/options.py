"""Flags of the scorers: which are on, on which ports, and each one's own."""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluator.scoring.congestion import CongestionOptions
from evaluator.scoring.pigeonoptions import PigeonOptions
from evaluator.scoring.reward import RewardOptions
from evaluator.scoring.safe import SafeOptions
from plimsoll import flags
from plimsoll.flags import option


def _names(text: str) -> str:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(f"an empty name in {text!r}")
    return ",".join(names)


def _ports(text: str) -> str:
    for item in text.split(","):
        name, equals, port = item.strip().partition("=")
        if not name or not equals:
            raise ValueError(f"not a scorer and its port: {item!r} (write it like safe=9011)")
        flags.port(port)
    return text


@dataclass(frozen=True, kw_only=True)
class ScorerOptions(CongestionOptions, PigeonOptions, RewardOptions, SafeOptions):
    """The scorers' flags."""

    scorers: tuple[str, ...] = option(
        "scorers",
        (),
        "scorers to answer for beside policies; repeatable, or with commas between them. Without any, the routes of "
        "scorers are not there and no pods are watched for them; an unknown name is answered with those there are",
        metavar="NAME",
        parse=_names,
    )
    scorer_ports: tuple[str, ...] = option(
        "scorerPorts",
        (),
        "further ports, each of which answers for one scorer alone, like safe=9011; repeatable, or with commas between "
        "them. Certificates and limits are those of --port, for each port anew",
        metavar="NAME=PORT",
        parse=_ports,
    )

    @property
    def enabled_scorers(self) -> tuple[str, ...]:
        """Their names, each once, in the order given."""
        return tuple(dict.fromkeys(name for given in self.scorers for name in given.split(",")))

    @property
    def ports_of_scorers(self) -> Mapping[str, int]:
        """The port of each scorer that has one of its own."""
        given = (
            item.strip().partition("=") for text in self.scorer_ports for item in text.split(",")
        )
        return {name: flags.port(port) for name, _, port in given}

    def scorer_mistakes(self) -> list[str]:
        """What is wrong with these settings together, each in a sentence."""
        given = [item.strip() for text in self.scorer_ports for item in text.split(",")]
        ports = self.ports_of_scorers
        found = [
            f"--scorerPorts: {name!r} is not among --scorers"
            for name in ports
            if name not in self.enabled_scorers
        ]
        if len(ports) < len(given):
            found.append("--scorerPorts: a scorer has one port of its own")
        used = [port for port in ports.values() if port]
        if len(set(used)) < len(used):
            found.append("--scorerPorts: each scorer needs a port of its own")
        return found
