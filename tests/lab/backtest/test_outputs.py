"""The outputs of a backtest: CSV, the HTML page in a real Chromium, --compare and --sensitivity."""

import csv
import io
import json

import pytest
import yaml

from lab.backtest import main
from tests import chromium
from tests.evaluator.conftest import make_tas

BEGIN = 1_763_164_800
EVIL = "<script>alert(1)</script>"


def policy(target, **options):
    rule = {"metricname": "load1", "operator": "GreaterThan", "target": target, **options}
    return yaml.safe_dump(make_tas("load", dontschedule=[rule]))


@pytest.fixture
def backtest(tmp_path, capsys):
    def run(*flags, nodes=("a", "b", EVIL), target=6):
        (tmp_path / "policy.yaml").write_text(policy(target))
        lines = [
            f'load1{{node="{node}"}} {value} {BEGIN + 60 * minute}\n'
            for number, node in enumerate(nodes)
            for minute, value in enumerate([1, 7 + number, 7, 1, 8, 1] * 10)
        ]
        (tmp_path / "dump.om").write_text("".join(lines))
        files = ("-f", str(tmp_path / "policy.yaml"), "--openmetrics", str(tmp_path / "dump.om"))
        assert main.main([*files, "--step=1m", *flags]) == 0
        return capsys.readouterr().out

    return run


def test_csv_has_a_line_per_interval(backtest):
    rows = [*csv.DictReader(io.StringIO(backtest("--output=csv")))]
    assert len(rows) == 60
    assert rows[0] == {
        "namespace": "ns",
        "policy": "load",
        "node": EVIL,
        "strategy": "dontschedule",
        "rule": "load1 GreaterThan 6",
        "start": "2025-11-15T00:01:00.000Z",
        "end": "2025-11-15T00:03:00.000Z",
        "worst": "9.0",
        "byMissing": "0",
        "beganBefore": "0",
        "ongoing": "0",
    }


def test_compare_replays_another_file_on_the_same_samples(backtest, tmp_path):
    (tmp_path / "other.yaml").write_text(policy(7, **{"for": "1m"}))
    flag = f"--compare={tmp_path / 'other.yaml'}"
    found = json.loads(backtest("--output=json", flag))
    assert found["policies"][0]["nodesAtOnce"]["max"] == 3
    assert found["compared"][0]["nodesAtOnce"]["max"] == 0
    assert "ns/load: 3, 1.5, 180, 180 here" not in backtest(flag)
    assert "ns/load: 3, " in backtest(flag)


def test_sensitivity_varies_target_for_and_clear_after(backtest):
    found = json.loads(backtest("--output=json", "--sensitivity"))
    rows = {
        (row["targetFactor"], row["forSeconds"], row["clearAfterSeconds"]): row
        for row in found["sensitivity"]
    }
    assert len(rows) == 5 * 3 * 3
    assert rows[1.0, 0, 0]["changes"] == found["policies"][0]["flaps"]["changes"]
    assert rows[1.0, 0, 0]["nodesAtOnceMax"] == 3
    assert rows[1.2, 0, 0]["nodeHours"] < rows[1.0, 0, 0]["nodeHours"]
    assert rows[1.0, 240, 0]["changes"] == 0
    assert "sensitivity of ns/load" in backtest("--sensitivity")


async def test_the_page_works_in_chromium_without_network(backtest, tmp_path):
    (tmp_path / "page.html").write_text(backtest("--output=html"))
    url = f"file://{tmp_path / 'page.html'}"
    async with chromium.launched() as browser, chromium.tab(browser) as tab:
        await tab.show(url)
        page = tab.page
        assert await page.title() == "Backtest 2025-11-15T00:00:00Z to 2025-11-15T00:59:00Z"
        assert await page.locator(".strips svg[role=img]").count() == 3
        assert await page.locator("rect.dontschedule").count() > 30
        assert EVIL in await page.locator(".strips").inner_text()
        assert "does not simulate that placement changes load" in await page.inner_text("p.note")
        box = await page.locator("rect.dontschedule").first.bounding_box()
        assert box["width"] > 1
    assert tab.others(url) == []
    assert tab.errors == []
    assert tab.dialogs == []


def test_the_page_has_strips_for_a_limited_number_of_nodes(backtest):
    page = backtest("--output=html", nodes=[f"n{number:03d}" for number in range(310)])
    assert page.count("<title>20 intervals") == 300
    assert "10 more nodes not drawn" in page
    assert len(page) < 3_000_000
