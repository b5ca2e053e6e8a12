"""Writes the metadata by which Artifact Hub, and so Headlamp's catalogue of plugins, lists the Headlamp plugin.

python -P release/headlamp.py URL ARCHIVE FOLDER     writes FOLDER/artifacthub-pkg.yml

ARCHIVE is the file that `make headlamp` made, and URL where it will be: a folder. Artifact Hub reads the file from a folder of a
git repository that is registered there as one of Headlamp plugins, beside headlamp/README.md.

Formats: https://artifacthub.io/docs/topics/repositories/headlamp-plugins/,
https://artifacthub.io/docs/topics/annotations/headlamp/
"""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "headlamp" / "package.json"
OLDEST = ">=0.39.0"
"""The first Headlamp with all that the plugin uses: `isClassOf`."""
FLAVOURS = "app,in-cluster,web,docker-desktop"


def metadata(url: str, archive: Path, created: str) -> str:
    """Return the metadata of an archive in the folder `url`; `created`: a time as RFC 3339."""
    package = json.loads(PACKAGE.read_text())
    document = {
        "version": package["version"],
        "name": package["name"].replace("-", "_"),
        "displayName": "Plimsoll",
        "createdAt": created,
        "description": package["description"],
        "license": package["license"],
        "category": "monitoring-logging",
        "keywords": package["keywords"],
        **_homepage(url),
        "annotations": {
            "headlamp/plugin/archive-url": f"{url}/{archive.name}",
            "headlamp/plugin/archive-checksum": f"SHA256:{hashlib.sha256(archive.read_bytes()).hexdigest()}",
            "headlamp/plugin/version-compat": OLDEST,
            "headlamp/plugin/distro-compat": FLAVOURS,
        },
    }
    return yaml.safe_dump(document, sort_keys=False)


def _homepage(url: str) -> dict[str, str]:
    """Return the field with the repository whose release a URL is in; no field for other URLs."""
    found = re.fullmatch(r"(https://github\.com/[^/]+/[^/]+)/releases/download/[^/]+", url)
    return {"homeURL": found[1]} if found else {}


def main(arguments: list[str]) -> int:
    """Write the file; return the exit status."""
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    url, archive, folder = arguments[0].rstrip("/"), Path(arguments[1]), Path(arguments[2])
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%cI"]
    created = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "artifacthub-pkg.yml").write_text(metadata(url, archive, created))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
