"""Flags of `pigeon`."""

from dataclasses import dataclass
from enum import StrEnum

from evaluator.features.scorers.demand import Demands
from evaluator.features.scorers.plugin import WhenMissing, when_missing
from plimsoll import flags
from plimsoll.flags import option


class Objective(StrEnum):
    """Values of --pigeonObjective."""

    LOAD_BALANCE = "load-balance"
    CONSOLIDATE = "consolidate"
    BIN_PACK = "bin-pack"


class TieOf(StrEnum):
    """Values of --pigeonTie."""

    VALUE = "value"
    CHANGE = "change"


def _resources(text: str) -> int:
    """Return the number of counted resources. Raises ValueError."""
    if text not in {"1", "2", "3", "4", "5"}:
        raise ValueError(f"not a number from 1 to 5: {text!r}")
    return int(text)


@dataclass(frozen=True, kw_only=True)
class PigeonOptions:
    """Flags of this scorer."""

    pigeon_objective: str = option(
        "pigeonObjective",
        Objective.BIN_PACK.value,
        "the placement objective: load-balance (equal usage), consolidate (nodes full or empty) or bin-pack (usage varies "
        "among nodes as requests vary among pods, so that later pods fit)",
        metavar="OBJECTIVE",
        parse=flags.choice(*Objective),
    )
    pigeon_resources: int = option(
        "pigeonResources",
        2,
        "how many of cpu, memory, pods, nvidia.com/gpu and ephemeral-storage count, in this order; load-balance and "
        "consolidate use the others only to check free resources",
        metavar="N",
        parse=_resources,
    )
    pigeon_tie: str = option(
        "pigeonTie",
        TieOf.CHANGE.value,
        "nodes are a tie, and score 10, if the objective differs by less than 1% among them: of its value, or of the change "
        "that the pod makes. With value, most placements are a tie from a few hundred nodes on",
        metavar="OF",
        parse=flags.choice(*TieOf),
    )
    pigeon_when_missing: WhenMissing = option(
        "pigeonWhenMissing",
        WhenMissing.IGNORE,
        "a node with unknown capacity or requests: ignore scores it 0, refuse also rejects it",
        metavar="WHAT",
        parse=when_missing,
    )

    @property
    def no_demands(self) -> Demands:
        """The statistics before the first pod."""
        return Demands()
