"""Flags of `pigeon`."""

from dataclasses import dataclass
from enum import StrEnum

from evaluator.scoring.demand import Demands
from evaluator.scoring.plugin import WhenMissing, when_missing
from plimsoll import flags
from plimsoll.flags import option


class Objective(StrEnum):
    """Words of a flag."""

    LOAD_BALANCE = "load-balance"
    CONSOLIDATE = "consolidate"
    BIN_PACK = "bin-pack"


class TieOf(StrEnum):
    """Words of a flag."""

    VALUE = "value"
    CHANGE = "change"


def _resources(text: str) -> int:
    """How many resources count."""
    if text not in {"1", "2", "3", "4", "5"}:
        raise ValueError(f"not a number from 1 to 5: {text!r}")
    return int(text)


@dataclass(frozen=True, kw_only=True)
class PigeonOptions:
    """Flags of this scorer."""

    pigeon_objective: str = option(
        "pigeonObjective",
        Objective.BIN_PACK.value,
        "what pods are placed for: load-balance (nodes alike in use), consolidate (nodes full or empty) or bin-pack (use "
        "varies among nodes as requests do among pods, so that what comes next finds room)",
        metavar="OBJECTIVE",
        parse=flags.choice(*Objective),
    )
    pigeon_resources: int = option(
        "pigeonResources",
        2,
        "how many count of cpu, memory, pods, nvidia.com/gpu and ephemeral-storage, from the first; load-balance and "
        "consolidate look at cpu alone, but for room",
        metavar="N",
        parse=_resources,
    )
    pigeon_tie: str = option(
        "pigeonTie",
        TieOf.CHANGE.value,
        "nodes are a tie, and get 10, where the objective differs by less than 1% among them: of its value, or of the change "
        "that the pod makes to it. With value, from some hundred nodes on most pods make no difference",
        metavar="OF",
        parse=flags.choice(*TieOf),
    )
    pigeon_when_missing: WhenMissing = option(
        "pigeonWhenMissing",
        WhenMissing.IGNORE,
        "a node of which capacity or requests are not known: ignore gives it 0, refuse filters it out, too",
        metavar="WHAT",
        parse=when_missing,
    )

    @property
    def no_demands(self) -> Demands:
        """What is known before any pod was seen."""
        return Demands()
