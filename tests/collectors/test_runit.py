from pathlib import Path

import pytest

from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.runit import Options as RunitOptions
from collectors.runit import Runit, parse

CHANGED = 1_700_000_000


def status(state: int, wanted: str) -> bytes:
    label = (1 << 62) + 10 + CHANGED
    pid = (77).to_bytes(4, "little")
    return label.to_bytes(8, "big") + bytes(4) + pid + bytes([0, ord(wanted), 0, state])


def test_state_of_each_service_is_exported(plant, values, tmp_path: Path) -> None:
    host = plant({"etc/service/web/down": "", "etc/service/fresh/run": "#!/bin/sh\n"})
    for service, content in (("web", status(1, "u")), ("db", status(0, "d"))):
        (tmp_path / "etc/service" / service / "supervise").mkdir(parents=True)
        (tmp_path / "etc/service" / service / "supervise/status").write_bytes(content)
    found = values(Runit(host, RunitOptions()).collect())
    assert found == {
        f'node_service_{name}{{service="{service}",supervisor="runit"}}': value
        for service, numbers in (("web", (1, 1, 0)), ("db", (0, 0, 1)))
        for name, value in zip(
            ("state", "desired_state", "normal_state", "state_last_change_timestamp_seconds"),
            (*numbers, CHANGED),
            strict=True,
        )
    }


def test_damaged_status_is_an_error() -> None:
    with pytest.raises(CollectorError, match="3 bytes"):
        parse(b"abc")


def test_machine_without_runit_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Runit(plant({}), RunitOptions()).collect())
