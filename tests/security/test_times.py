"""Times from outside are bounded by now, by `rfc3339.bounded`. Every other reader of times says why it needs no bound."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
READERS = {
    "evaluator/core/model/node.py": "decodes, without a clock; readers of conditions bound them",
    "evaluator/core/model/pod_record.py": "decodes, without a clock; readers of pods bound them",
    "evaluator/core/policy/parse.py": "of the API server's clock",
    "evaluator/core/sources/custom_metrics.py": "MeasurementTime.translate bounds it by the server's clock",
    "evaluator/features/evictions/journal.py": "of the API server's clock",
    "evaluator/features/evictions/plan.py": "of the API server's clock; the order of pods alone",
    "evaluator/features/gangs/core/labels.py": "Reservations.of_released bounds it",
    "evaluator/features/history/feature.py": "of the API server's clock: which pods are younger than an eviction",
    "evaluator/features/history/page.py": "of a request, for the request",
    "evaluator/features/history/recorder.py": "later ones are left out",
    "evaluator/features/memory/since.py": "of what it wrote itself; rfc3339.bounded bounds what it reads",
    "evaluator/features/memory/scores.py": "decodes, without a clock; NodeMemory.until bounds it",
    "evaluator/features/requeue/plan.py": "later ones are ignored: bounded by now, a pod would always just have been requeued",
    "evaluator/features/stop/entries.py": "what a person claims, shown as such",
}  # fmt: skip


def test_every_reader_of_times_bounds_them_or_says_why_not():
    found = set()
    for folder in ("evaluator", "agent", "collectors", "wire"):
        for path in (ROOT / folder).rglob("*.py"):
            if re.search(r"\brfc3339\.parse(_or_none)?\b", path.read_text()):
                found.add(str(path.relative_to(ROOT)))
    # Part of the product without a feature lacks its readers.
    assert found <= READERS.keys()
    assert all((ROOT / path).exists() is (path in found) for path in READERS)
