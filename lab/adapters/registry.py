"""The adapters of the features in the evaluator's list."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from evaluator.features.registry import NAMES
from lab.adapters.adapter import Adapter, Descheduling, Replayable
from lab.interface import MakeVerbs

ADAPTERS: tuple[Adapter, ...] = tuple(
    import_module(f"lab.adapters.{name}").ADAPTER
    for name in NAMES
    if find_spec(f"lab.adapters.{name}")
)
"""In the order of the list."""

REPLAYABLE: tuple[Replayable[Any], ...] = tuple(
    adapter.replayable for adapter in ADAPTERS if adapter.replayable
)
"""The features that a backtest replays."""
VERBS: MakeVerbs = next(adapter.verbs for adapter in ADAPTERS if adapter.verbs)
"""The answers to kube-scheduler of a simulation."""
DESCHEDULING: Descheduling[Any] | None = next(
    (adapter.descheduling for adapter in ADAPTERS if adapter.descheduling), None
)
"""What makes pods leave nodes in a simulation; None without such a feature."""
