"""Flags of gangs: whether pods wait for one another, and for how long."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from evaluator.gangs.core.types import GangTimings
from evaluator.model.requests import IGNORED
from plimsoll import durations, flags
from plimsoll.flags import option

_DEFAULT = GangTimings()


@dataclass(frozen=True, kw_only=True)
class GangOptions:
    """Gangs. Times are in seconds."""

    gangs: bool = option(
        "gangs",
        False,
        "hold pods with the scheduling gate plimsoll.io/gang until all that they make sense with exist and fit, and let "
        "them go in order of importance; all pods are watched for it",
    )
    gang_timeout: float = option(
        "gangTimeout",
        _DEFAULT.timeout,
        "how long room is kept for a gang that was let go, and all others wait, until each of its pods has a node",
        metavar="DURATION",
        parse=flags.positive_duration,
    )
    gang_backoff: float = _DEFAULT.backoff
    """First pause of a gang that timed out; doubles each time. Constant: no flag sets it, tests pass shorter ones."""
    gang_backoff_max: float = _DEFAULT.longest_backoff
    """Longest pause. Constant."""
    gang_ageing: float = _DEFAULT.ageing
    """A gang that waited longer and would fit on empty nodes is not overtaken for `gang_timeout` at a time. Constant."""
    gang_fit: bool = option(
        "gangFit",
        True,
        "let a gang go only when there is room for it. Without it gangs go in order as soon as they are complete, one at a "
        "time: for clusters whose autoscaler makes nodes for pods that wait, since it does not see gated ones",
    )
    gate_max_age: float = option(
        "gateMaxAge",
        0.0,
        "let a pod go that our gate has held for longer than this, alone if need be, with a warning event; 0: never",
        metavar="DURATION",
        parse=durations.duration,
    )
    gang_count_all: bool = option(
        "gangCountAll",
        False,
        "count pods that have ended, or are being deleted, for minAvailable too, as the scheduler plugin does that these "
        "labels come from",
    )
    gang_ignored_resources: tuple[str, ...] = option(
        "gangIgnoredResources",
        (),
        "extended resources that need not be free on a node for a gang to fit, as those that a scheduler extender "
        "manages; repeatable, or with commas between them. telemetry/scheduling never has to be",
        metavar="NAME",
        parse=flags.names,
    )

    @property
    def gang_terms(self) -> GangTimings:
        """What is decided by."""
        return GangTimings(
            timeout=self.gang_timeout,
            backoff=self.gang_backoff,
            longest_backoff=self.gang_backoff_max,
            ageing=self.gang_ageing,
            gate_max_age=self.gate_max_age or math.inf,
            fit=self.gang_fit,
        )

    @property
    def ignored_resources(self) -> frozenset[str]:
        """By name, with the one that never has to be free."""
        named = {name for given in self.gang_ignored_resources for name in given.split(",")}
        return IGNORED | named

    def gang_mistakes(self) -> Iterator[str]:
        """What is wrong with these settings together, each in a sentence."""
        if 0 < self.gate_max_age <= self.gang_timeout:
            yield "--gateMaxAge must be more than --gangTimeout, or no gang could wait for its turn"
