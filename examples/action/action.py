"""The action `example`: what a policy with `plimsoll.io/actions: example` does to nodes that violate it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluator.core.policy.types import ActionPart, Policy
from evaluator.core.policy.vocabulary import NodeActions

WAIT = "plimsoll.io/example-wait"
"""The annotation of this action: minutes to wait, from 0 to 60."""


@dataclass(frozen=True, slots=True)
class ExampleAction(ActionPart):
    """What a policy says about this action. `wait`: minutes."""

    wait: int = 0

    def described(self, policy: Policy) -> Iterator[str]:
        """Yield a sentence for `check`."""
        if self.kinds:
            yield f"example on violating nodes after {self.wait} min"


def parse(
    _policy: str, annotations: Mapping[str, object], kinds: frozenset[str], problems: list[str]
) -> ExampleAction:
    """Return the action of a policy; an invalid annotation is a problem, and disables the action."""
    text = str(annotations.get(WAIT, "0"))
    if not (text.isascii() and text.isdigit() and len(text) < 3 and int(text) <= 60):
        problems.append(f"annotation {WAIT}: not a number from 0 to 60: no node is acted on")
        return ExampleAction()
    return ExampleAction(kinds, int(text))


ACTION = NodeActions(("example",), parse, (WAIT,))
