"""One whole scrape of a fixture machine, byte for byte; run with RENEW_GOLDEN=1 to update it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.scrape.exposition import encode_text
from agent.scrape.runner import CollectorRunner
from collectors.cpu import Options as CpuOptions
from collectors.registry import COLLECTORS, build
from collectors.textfile import Options as TextOptions

GOLDEN = Path(__file__).parent / "golden/xeon.txt"
# Names given by node_exporter; promtool suggests others.
AS_IN_NODE_EXPORTER = {"node_entropy_available_bits", "node_entropy_pool_size_bits"}
NO_FILES = {"filesystem", "time", "timex", "uname"}  # they describe the kernel that runs the tests


@pytest.fixture
def scrape(xeon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    (tmp_path / "textfiles").mkdir()
    for name, text in (
        ("health.prom", "node_health_metric 0\n"),
        (
            "backup.prom",
            '# HELP backup_age_seconds How old it is.\n# TYPE backup_age_seconds gauge\nbackup_age_seconds{set="db"} 3600\n',
        ),
        ("broken.prom", "node_broken 1 2\n"),
    ):
        (tmp_path / "textfiles" / name).write_text(text)
        os.utime(tmp_path / "textfiles" / name, (1790000000, 1790000000))
    monkeypatch.chdir(tmp_path)
    chosen = {
        name: entry.options()
        for name, entry in COLLECTORS.items()
        if entry.on and name not in NO_FILES
    }
    chosen["cpu"] = CpuOptions(cpu_info=True, cpu_flags_include="rdt|cqm")
    chosen["textfile"] = TextOptions(textfile_directories=("textfiles",))
    collector_runner = CollectorRunner(build(xeon, chosen), clock=lambda: 0.0)
    return encode_text(collector_runner.run().families)


def test_whole_scrape_equals_the_golden_file(scrape: bytes) -> None:
    if os.environ.get("RENEW_GOLDEN"):
        GOLDEN.write_bytes(scrape)
    assert scrape.decode() == GOLDEN.read_text()


@pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool (Debian: prometheus) is not installed"
)
def test_promtool_reports_only_names_given_by_linux(scrape: bytes) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=scrape, capture_output=True, text=False
    )
    complaints = [
        line
        for line in checked.stderr.decode().splitlines()
        if not (
            line.startswith(("node_memory_", "node_netstat_")) and line.endswith("not 'camelCase'")
        )
        and line.split()[0] not in AS_IN_NODE_EXPORTER
    ]
    assert complaints == []
