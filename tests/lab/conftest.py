"""`backtest` on samples in a file."""

import json

import pytest
import yaml

from lab.backtest import main
from tests.evaluator.conftest import make_tas

BEGIN = 1_763_164_800  # 2025-11-15T00:00:00Z


def rule(target=6, metric="load1", **more):
    return {"metricname": metric, "operator": "GreaterThan", "target": target, **more}


@pytest.fixture
def backtest(tmp_path, capsys):
    def run(series, *flags, **strategies):
        """Run over `series` (head of a line → values, None for no sample), one sample a minute."""
        policy = make_tas("load", **(strategies or {"dontschedule": [rule()]}))
        policy["metadata"]["annotations"] = run.annotations
        (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
        lines = [
            f"{head} {value} {BEGIN + 60 * minute}\n"
            for head, values in series.items()
            for minute, value in enumerate(values)
            if value is not None
        ]
        (tmp_path / "dump.om").write_text("".join([*lines, "# EOF\n"]))
        try:
            status = main.main(
                [
                    *(
                        "-f",
                        str(tmp_path / "policy.yaml"),
                        "--openmetrics",
                        str(tmp_path / "dump.om"),
                    ),
                    *("--step=1m", *flags),
                ]
            )
        except SystemExit as ended:
            status = ended.code
        run.out, run.err = capsys.readouterr()
        return status

    run.annotations = {}
    run.json = lambda: json.loads(run.out)["policies"][0]
    return run
