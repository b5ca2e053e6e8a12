"""The contracts in pyproject.toml find forbidden imports, also of modules that they do not list, and circles."""

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


def test_circle_of_imports_for_type_checking_is_found(checkout) -> None:  # noqa: F811
    with (checkout.root / "plimsoll/text.py").open("a") as text:
        text.write("import typing\nif typing.TYPE_CHECKING:\n    import plimsoll.re2\n")
    status, printed = checkout.outcome("lint-imports", "--no-cache")
    assert status == 1
    assert "No cycles are allowed in plimsoll." in printed
