"""What the rules of one group read: collected series, which groups share, and results."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.rules.promql.syntax.matchers import Selector
from agent.rules.storage.head import Head
from agent.rules.storage.series import StoredSeries
from agent.rules.storage.shared_head import SharedHead


@dataclass(frozen=True, slots=True)
class GroupStorage:
    """The storage of a group (a `values.Storage`)."""

    results: Head
    collected: SharedHead

    def select(self, selector: Selector) -> Sequence[StoredSeries]:
        """See `values.Storage`. Of a series that was collected and recorded in turn, the current one counts."""
        collected, results = self.collected.select(selector), self.results.select(selector)
        if not results:
            return collected
        if not collected:
            return results
        found = {series.labels: series for series in results}
        for series in collected:
            if series.live or series.labels not in found:
                found[series.labels] = series
        return list(found.values())
