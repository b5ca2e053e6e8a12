"""What the adapter of a feature declares: an `ADAPTER` in its module."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from evaluator.core.options import FeatureOptions
from lab.interface import Descheduler, MakeVerbs, StartReplay

Options = TypeVar("Options", bound=FeatureOptions)


@dataclass(frozen=True, kw_only=True)
class Replayable(Generic[Options]):
    """A feature that a backtest replays. `options`: the flags of `backtest` for it."""

    options: type[Options]
    start: Callable[[Options], StartReplay]


@dataclass(frozen=True, kw_only=True)
class Descheduling(Generic[Options]):
    """A feature that makes pods leave nodes. `options`: the flags of `simulate` for it; `start` returns None if they are off."""

    options: type[Options]
    start: Callable[[Options], Descheduler | None]


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """How the tools use one feature."""

    replayable: Replayable[Any] | None = None
    """What it does with decisions, for `backtest`."""
    verbs: MakeVerbs | None = None
    """How it answers kube-scheduler, for `simulate`."""
    descheduling: Descheduling[Any] | None = None
    """How it makes pods leave nodes, for `simulate`."""
