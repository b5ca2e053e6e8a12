"""What the stop adds to pages."""

from evaluator.core.page_fields import EvaluatorFields, Fields, ListedPolicyFields, PolicyFields


class ShownStop(Fields, kw_only=True):
    """One entry of the stop."""

    policy: str | None
    """Null: all policies."""
    mode: str
    by: str | None
    """As the entry claims."""
    at: str | None
    reason: str | None
    problem: str | None


class ReadStop(Fields, kw_only=True):
    """What is known of the stop."""

    read: bool
    """False: all policies are frozen until it is."""
    entries: list[ShownStop]


class StopFields(EvaluatorFields):
    """The stop, as this replica knows it."""

    stop: ReadStop


class StoppedPolicyFields(PolicyFields):
    """Of a stopped policy."""

    stopped: ShownStop


class ListedStopFields(ListedPolicyFields):
    """Of a stopped policy."""

    stopped: str
    """`freeze` or `release`."""


PAGES: tuple[type[Fields], ...] = (StopFields, StoppedPolicyFields, ListedStopFields)
