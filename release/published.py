"""Switches the texts from "install from a checkout" to "install what was released", in one place, after the first release.

python -P release/published.py REGISTRY     after a release to PyPI and REGISTRY, such as ghcr.io/OWNER
python -P release/chart.py --registry NAME  only the names of the images, for images of your own
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = "deploy/images/kustomization.yaml"
NAMED = (
    IMAGES,
    "deploy/scheduler/README.md",
    "docs/quickstart-kind.md",
    "docs/switching-from-tas.md",
    "examples/record/pod.yaml",
)
"""Files with the names of our images."""
PACKAGE = "kube-plimsoll"
PLACES = {
    "docs/kubectl-plugin.md": ("pip install '.[kubectl]'   # in a checkout", f"pip install '{PACKAGE}[kubectl]'"),
    "examples/systemd/README.md": ("/opt/plimsoll/bin/pip install '.[agent]'   # in a checkout", f"/opt/plimsoll/bin/pip install '{PACKAGE}[agent]'"),
    "plimsoll/programs.py": ("in a checkout: pip install '.[{extra}]'", f"pip install '{PACKAGE}[{{extra}}]'"),
    "docs/gitops.md": ("   # a checkout of yours, until the first release", ""),
    "docs/install.md": ("No images are published yet. Build them", "Images are published with each release. To use your own, build them"),
}  # fmt: skip
"""File -> the text before the first release, and after it."""


def name_images(registry: str, root: Path = ROOT) -> None:
    """Replace the registry and path of our images in all files."""
    old = re.search(r"newName: (\S+)/agent", (root / IMAGES).read_text())
    assert old is not None
    for name in NAMED:
        path = root / name
        path.write_text(path.read_text().replace(f"{old[1]}/", f"{registry}/"))


def publish(root: Path = ROOT) -> None:
    """Replace the texts of all places. Raises ValueError if one is neither as before nor as after."""
    for name, (before, after) in PLACES.items():
        text = (root / name).read_text()
        if before not in text and after not in text:
            raise ValueError(f"{name}: does not have {before!r}")
        (root / name).write_text(text.replace(before, after))


def main(arguments: list[str]) -> int:
    """Switch all texts; return the exit status."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    publish()
    name_images(arguments[0])
    print("now run `make chart docs`")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
