"""The example: what the feature does, in a sentence."""

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.options import FeatureOptions
from evaluator.core.page_fields import EvaluatorFields
from evaluator.core.pages.part import PagePart
from evaluator.core.signals import Decided, wakes
from evaluator.core.wiring import Wired


class ExampleFields(EvaluatorFields):
    """What the first page shows of it."""

    example: int


class Example:
    """Counts the decisions of this replica."""

    def __init__(self) -> None:
        self._count = 0

    def decided(self) -> None:
        """Count a decision."""
        self._count += 1

    def fields(self) -> ExampleFields:
        """Return what the first page shows of it."""
        return ExampleFields(example=self._count)


def wire(_core: Core, _options: FeatureOptions) -> Wired:
    """Count decisions on every replica."""
    example = Example()
    return Wired(page=PagePart(evaluator=example.fields), reacts=wakes(example.decided, Decided))


FEATURE = Feature(name="example", options=FeatureOptions, wire=wire, pages=(ExampleFields,))
