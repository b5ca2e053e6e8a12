"""The tables under docs/ are up to date."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_tables_of_flags_and_metrics_are_up_to_date() -> None:
    command = [sys.executable, "-P", str(ROOT / "docs" / "generate.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
