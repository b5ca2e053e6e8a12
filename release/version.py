"""Sets or checks the version: VERSION of the package plimsoll is the source, other files repeat it.

python -P release/version.py            exit 1 if a file has another version
python -P release/version.py 0.2.0      set it everywhere, then run `make chart`
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ("plimsoll/__init__.py", r'(?<=^VERSION = ")[^"]+')
PLACES = (
    ("deploy/images/kustomization.yaml", r"(?<=newTag: )\S+"),
    ("Dockerfile", r"(?<=ARG VERSION=)\S+"),
    ("deploy/scheduler/README.md", r"(?<=kube-plimsoll/evaluator:)[0-9][\w.]*"),
    ("docs/quickstart-kind.md", r"(?<=kube-plimsoll/evaluator:)[0-9][\w.]*"),
    ("examples/record/pod.yaml", r"(?<=kube-plimsoll/tools:)[0-9][\w.]*"),
    ("headlamp/package.json", r'(?<=^  "version": ")[^"]+'),
    (
        "headlamp/package-lock.json",
        r'(?<=^  "version": ")[^"]+|(?<="name": "headlamp-plimsoll",\n      "version": ")[^"]+',
    ),
    ("docs/switching-from-tas.md", r"(?<=kube-plimsoll/evaluator:)[0-9][\w.]*"),
)


def main(argv: list[str]) -> int:
    """Set the version, or report files that have another one; return the exit status."""
    if argv:
        for name, pattern in (SOURCE, *PLACES):
            path = ROOT / name
            path.write_text(re.sub(pattern, argv[0], path.read_text(), flags=re.MULTILINE))
        return 0
    version = found(*SOURCE)
    wrong = [name for name, pattern in PLACES if found(name, pattern) != version]
    for name in wrong:
        print(f"{name} does not have version {' '.join(version)}: python -P release/version.py {' '.join(version)}", file=sys.stderr)  # fmt: skip
    return 1 if wrong else 0


def found(name: str, pattern: str) -> set[str]:
    """Return the versions that a file names."""
    return set(re.findall(pattern, (ROOT / name).read_text(), flags=re.MULTILINE))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
