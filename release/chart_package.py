"""Packs deploy/chart as Helm does, and the same each time: `helm package` writes the time of packing into the archive.

python -P release/chart_package.py FOLDER     writes FOLDER/plimsoll-<version>.tgz
"""

import gzip
import io
import sys
import tarfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


def pack(chart: Path) -> bytes:
    """Return the archive of a chart: its files below the chart's name, Chart.yaml first."""
    name = yaml.safe_load((chart / "Chart.yaml").read_text())["name"]
    files = sorted(path for path in chart.rglob("*") if path.is_file())
    files.sort(key=lambda path: path.name != "Chart.yaml")
    made = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=made, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in files:
            entry = tarfile.TarInfo(f"{name}/{path.relative_to(chart)}")
            content = path.read_bytes()
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def main(arguments: list[str]) -> int:
    """Write the archive; return the exit status."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    chart = ROOT / "deploy" / "chart"
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    target = Path(arguments[0]) / f"{about['name']}-{about['version']}.tgz"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(pack(chart))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
