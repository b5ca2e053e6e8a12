"""Packs kubectl plimsoll for krew: an archive that is the same for all platforms, and the manifest of its index.

python -P release/krew.py URL FOLDER     writes FOLDER/kubectl-plimsoll.tar.gz and FOLDER/plimsoll.yaml

URL is where the archive will be. If it is a release on GitHub, the manifest names its repository as the homepage.

Format: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/. The plugin is a zip file that Python runs; it needs
Python 3.11 on the PATH, and PyYAML only for `-o yaml`.
"""

import gzip
import hashlib
import io
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # a checkout need not be installed

from plimsoll import VERSION  # noqa: E402

NAME = "kubectl-plimsoll"
PLATFORMS = (("linux", "amd64"), ("linux", "arm64"), ("darwin", "amd64"), ("darwin", "arm64"))
_PARTS = ("kubectl_plimsoll/*.py", "plimsoll/*.py")
_TIME = (1980, 1, 1, 0, 0, 0)
"""Of all files in the archive, so that it is the same each time: the earliest that zip files know."""
_MAIN = b"import sys\n\nfrom kubectl_plimsoll.main import main\n\nsys.exit(main())\n"


def program() -> bytes:
    """Return the plugin as one executable file."""
    made = io.BytesIO(b"#!/usr/bin/env python3\n")
    made.seek(0, io.SEEK_END)
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted({"__main__.py": _MAIN, **dict(_modules())}.items()):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return made.getvalue()


def _modules() -> Iterator[tuple[str, bytes]]:
    for pattern in _PARTS:
        for path in ROOT.glob(pattern):
            yield str(path.relative_to(ROOT)), path.read_bytes()


def archive() -> bytes:
    """Return the archive with the plugin and the licence."""
    made = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=made, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, mode, content in (
            (NAME, 0o755, program()),
            ("LICENSE", 0o644, (ROOT / "LICENSE").read_bytes()),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def manifest(url: str, content: bytes) -> str:
    """Return the manifest of the index; `url`: the folder with the archive."""
    platform = {
        "uri": f"{url}/{NAME}.tar.gz",
        "sha256": hashlib.sha256(content).hexdigest(),
        "bin": NAME,
    }
    document = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "plimsoll"},
        "spec": {
            "version": f"v{VERSION}",
            **homepage(url),
            "shortDescription": "Show why telemetry policies place pods as they do",
            "description": (
                "Shows policies, nodes, pods and gangs as Plimsoll's evaluator sees them, with your own rights: which nodes\n"
                "violate a policy, and why a pod waits.\n"
            ),
            "caveats": (
                "Needs Python 3.11 or newer, and an evaluator in the cluster. Words are not completed: krew installs one\n"
                "program per plugin.\n"
            ),
            "platforms": [
                {"selector": {"matchLabels": {"os": os, "arch": arch}}, **platform}
                for os, arch in PLATFORMS
            ],
        },
    }
    return yaml.safe_dump(document, sort_keys=False)


def homepage(url: str) -> dict[str, str]:
    """Return the field with the repository whose release a URL is in; no field for other URLs."""
    found = re.fullmatch(r"(https://github\.com/[^/]+/[^/]+)/releases/download/[^/]+", url)
    return {"homepage": found[1]} if found else {}


def main(arguments: list[str]) -> int:
    """Write both files; return the exit status."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    url, folder = arguments[0].rstrip("/"), Path(arguments[1])
    folder.mkdir(parents=True, exist_ok=True)
    content = archive()
    (folder / f"{NAME}.tar.gz").write_bytes(content)
    (folder / "plimsoll.yaml").write_text(manifest(url, content))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
