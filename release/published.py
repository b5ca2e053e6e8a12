"""Switches the texts from "install from a checkout" to "install what was released", in one place, after the first release.

python -P release/published.py REGISTRY     after a release to PyPI and REGISTRY, such as ghcr.io/OWNER
python -P release/published.py --code-owners '@USER @ORGANIZATION/TEAM'    who reviews changes, when they are known
python -P release/published.py --artifact-hub ID    the chart's repository on Artifact Hub, once it is registered
python -P release/chart.py --registry NAME  only the names of the images, for images of your own
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

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
CODE_OWNERS = ".github/CODEOWNERS"
ARTIFACT_HUB = "deploy/chart/artifacthub-repo.yml"
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


def own(owners: str, root: Path = ROOT) -> None:
    """Request reviews of all files from users, teams or e-mail addresses. Raises ValueError if it is none of these."""
    wrong = [one for one in owners.split() if not re.fullmatch(r"@[\w.-]+(/[\w.-]+)?|[^@\s]+@[^@\s]+", one)]  # fmt: skip
    if wrong or not owners.strip():
        raise ValueError(f"{' '.join(wrong) or owners!r} is no @USER, @ORGANIZATION/TEAM or e-mail address")  # fmt: skip
    (root / CODE_OWNERS).write_text(f"# Who reviews what; the last matching line counts.\n* {owners}\n")  # fmt: skip


def claim(repository: str, root: Path = ROOT) -> None:
    """Enter the ID of the chart's repository on Artifact Hub. Raises ValueError if it is no UUID."""
    path = root / ARTIFACT_HUB
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    path.write_text("\n".join([*comments, f"repositoryID: {UUID(repository)}", ""]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Switch what is asked for; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("registry", nargs="?", help="registry and path of the released images")
    parser.add_argument(
        "--code-owners", help="users, teams or e-mail addresses, separated by spaces"
    )
    parser.add_argument("--artifact-hub", help="ID of the chart's repository")
    options = parser.parse_args(arguments)
    if not any(vars(options).values()):
        parser.error("nothing to switch")
    try:
        if options.code_owners is not None:
            own(options.code_owners)
        if options.artifact_hub is not None:
            claim(options.artifact_hub)
    except ValueError as error:
        parser.error(str(error))
    if options.registry:
        publish()
        name_images(options.registry)
        print("now run `make chart docs`")
    return 0


if __name__ == "__main__":
    sys.exit(main())
