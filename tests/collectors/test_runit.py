import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.runit import Options as RunitOptions
from collectors.runit import Runit, parse

STATE = 'node_service_state{service="web",supervisor="runit"}'
CHANGED = 1_700_000_000


def status(state: int, wanted: str) -> bytes:
    label = (1 << 62) + 10 + CHANGED
    pid = (77).to_bytes(4, "little")
    return label.to_bytes(8, "big") + bytes(4) + pid + bytes([0, ord(wanted), 0, state])


@contextlib.contextmanager
def supervised(service: Path) -> Iterator[None]:
    """Read the FIFO of a service, as its runsv does."""
    fifo = service / "supervise/ok"
    if not fifo.exists():
        os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield
    finally:
        os.close(reader)


@pytest.mark.parametrize("has_fifo", [True, False])
def test_service_without_its_supervisor_is_down(
    plant, values, tmp_path: Path, has_fifo: bool
) -> None:
    host = plant({"etc/service/web/run": "", "etc/service/web/supervise/lock": ""})
    (tmp_path / "etc/service/web/supervise/status").write_bytes(status(1, "u"))
    with supervised(tmp_path / "etc/service/web"):
        assert values(Runit(host, RunitOptions()).collect())[STATE] == 1
    if not has_fifo:
        (tmp_path / "etc/service/web/supervise/ok").unlink()
    assert values(Runit(host, RunitOptions()).collect())[STATE] == 0


def test_damaged_status_costs_its_service(plant, values, tmp_path: Path) -> None:
    host = plant({f"etc/service/{name}/supervise/lock": "" for name in ("web", "db")})
    (tmp_path / "etc/service/web/supervise/status").write_bytes(status(1, "u"))
    (tmp_path / "etc/service/db/supervise/status").write_bytes(b"abc")
    with supervised(tmp_path / "etc/service/web"):
        found = values(Runit(host, RunitOptions()).collect())
    assert found[STATE] == 1
    assert not any('service="db"' in series for series in found)


def test_state_of_each_service_is_exported(plant, values, tmp_path: Path) -> None:
    host = plant({"etc/service/web/down": "", "etc/service/fresh/run": "#!/bin/sh\n"})
    for service, content in (("web", status(1, "u")), ("db", status(0, "d"))):
        (tmp_path / "etc/service" / service / "supervise").mkdir(parents=True)
        (tmp_path / "etc/service" / service / "supervise/status").write_bytes(content)
    with supervised(tmp_path / "etc/service/web"), supervised(tmp_path / "etc/service/db"):
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
