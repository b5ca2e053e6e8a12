"""The contracts in pyproject.toml find the imports that they forbid among collectors, none of which they list."""

import re

import pytest

from tests.checkout import checkout  # noqa: F401 (a fixture)

pytestmark = pytest.mark.e2e

FORBIDDEN = {
    "collectors/arp.py": "collectors.cpu",
    "collectors/edac.py": "collectors.registry",
    "collectors/registry/index.py": "collectors.uname",
    "collectors/shared/mounts.py": "collectors.loadavg",
    "collectors/interface/refusal.py": "collectors.shared.netroot",
    "collectors/textfile/formats/promtext.py": "os",
    "agent/main.py": "collectors.stat",
}


def test_forbidden_imports_are_found(checkout) -> None:  # noqa: F811
    for file, module in FORBIDDEN.items():
        with (checkout.root / file).open("a") as text:
            text.write(f"import {module}\n")
    status, printed = checkout.outcome("lint-imports", "--no-cache")
    assert status == 1
    found = set(re.findall(r"([\w.]+) -> ([\w.]+) \(l\.\d+\)", printed))
    for file, module in FORBIDDEN.items():
        assert (file.removesuffix(".py").replace("/", "."), module) in found
