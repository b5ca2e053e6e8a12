"""The evaluator's flags: those of the core, and those of each feature in the list.

A new flag is a field in `evaluator/core/options.py`, or in the `options.py` of the feature that reads it; then run
`make docs`.
"""

from dataclasses import fields, make_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from evaluator.core.options import CoreOptions, FeatureOptions
from evaluator.features.registry import FEATURES, VOCABULARY

T = TypeVar("T", bound=FeatureOptions)

PARTS: tuple[type[FeatureOptions], ...] = (CoreOptions, *(f.options for f in FEATURES))
"""The classes of flags, in the order of --help."""


class _Parts:
    """Takes a settings object apart: no part of the evaluator sees the flags of another."""

    def options_of(self, part: type[T]) -> T:
        """Return the flags of the core or of one feature."""
        return part(**{field.name: getattr(self, field.name) for field in fields(part)})

    def mistakes(self) -> list[str]:
        """Return errors in the combination of flags, each as a sentence."""
        taken: dict[int, str] = {}
        errors: list[str] = []
        for part in PARTS:
            options = self.options_of(part)
            errors += options.mistakes(taken, VOCABULARY)
            taken |= options.ports()
        for feature in FEATURES:
            errors += feature.check(self.options_of(feature.options))
        return errors


if TYPE_CHECKING:

    class Settings(_Parts, CoreOptions):
        """Every flag of plimsoll-evaluator. Times are in seconds."""

        def mistakes(self) -> list[str]: ...  # type: ignore[override]

else:
    _WITH_FLAGS = dict.fromkeys(part for part in PARTS if part is not FeatureOptions)
    Settings: Any = make_dataclass(
        "Settings", (), bases=(_Parts, *_WITH_FLAGS), frozen=True, kw_only=True
    )
    """Every flag of plimsoll-evaluator. Times are in seconds."""
