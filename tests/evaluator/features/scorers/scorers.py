"""The scorers under property tests, each with default and with extreme flags."""

from evaluator.features.scorers.plugin import Scorer, WhenMissing
from evaluator.features.scorers.plugins.congestion import Congestion, CongestionOptions
from evaluator.features.scorers.plugins.pigeon import Objective, Pigeon, PigeonOptions, TieOf
from evaluator.features.scorers.plugins.reward import Reward
from evaluator.features.scorers.plugins.safe import Safe, SafeOptions
from evaluator.features.scorers.plugins.template import Template

REFUSE = WhenMissing.REFUSE
SCORERS: dict[str, Scorer] = {
    "congestion": Congestion(),
    "congestion, refusing": Congestion(CongestionOptions(congestion_when_missing=REFUSE)),
    **{
        f"pigeon, {objective}": Pigeon(PigeonOptions(pigeon_objective=objective))
        for objective in Objective
    },
    "pigeon, refusing": Pigeon(PigeonOptions(pigeon_when_missing=REFUSE, pigeon_resources=5)),
    "pigeon, by change": Pigeon(PigeonOptions(pigeon_tie=TieOf.CHANGE)),
    "reward": Reward(),
    "safe": Safe(),
    "safe, refusing": Safe(SafeOptions(safe_when_missing=REFUSE, safe_priority="balance")),
    "safe, accepting no risk": Safe(SafeOptions(safe_risk=0.0, safe_utilisation=1.0)),
    "safe, accepting any risk": Safe(SafeOptions(safe_risk=1.0, safe_utilisation=0.0)),
    "template": Template(),
}
