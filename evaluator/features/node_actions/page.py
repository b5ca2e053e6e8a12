"""What actions on nodes add to pages."""

from evaluator.core.page_fields import Fields, PolicyFields, WrittenFields


class ShownActions(Fields):
    """The actions of a policy. `limit`, `acted` and `heldBack` count nodes; null if nothing is limited."""

    kinds: list[str]
    effect: str
    condition: str
    limit: int | None
    acted: int | None
    held_back: int | None
    problems: list[str]


class ActionsFields(PolicyFields):
    """Of every policy."""

    actions: ShownActions


class WrittenTaint(Fields):
    """A taint of ours."""

    key: str
    value: str
    effect: str


class WrittenCondition(Fields):
    """A condition of ours."""

    type: str
    status: str
    reason: str
    since: str | None


class WrittenActionsFields(WrittenFields):
    """Our taints and conditions of a node."""

    taints: list[WrittenTaint]
    conditions: list[WrittenCondition]


PAGES: tuple[type[Fields], ...] = (ActionsFields, WrittenActionsFields)
