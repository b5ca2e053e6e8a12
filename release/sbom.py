"""Prints a software bill of materials (CycloneDX 1.6, JSON) of the locked runtime dependencies.

python -P release/sbom.py > sbom.cdx.json
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plimsoll import VERSION

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = re.compile(
    r"^([a-z0-9][a-z0-9._-]*)==(\S+)([^\n]*(?:\n    --hash=\S+(?: \\)?)*)", re.MULTILINE
)


def components(text: str) -> Iterator[dict[str, Any]]:
    """Return the components of a lock file; the hashes are those of all files of a release."""
    for name, version, rest in PACKAGE.findall(text):
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", rest)
        purl = f"pkg:pypi/{name}@{version}"
        files = [{"alg": "SHA-256", "content": digest} for digest in hashes]
        yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "hashes": files}  # fmt: skip


def document() -> dict[str, Any]:
    """Return the bill of materials."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "kube-plimsoll",
                "version": VERSION,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": list(components((ROOT / "requirements.txt").read_text())),
    }


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=2)
