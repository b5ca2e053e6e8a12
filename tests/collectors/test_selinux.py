import pytest

from collectors.selinux import Selinux, parse_config

ENFORCE, CONFIG = "sys/fs/selinux/enforce", "etc/selinux/config"


def test_current_and_configured_mode_are_exported(plant, values) -> None:
    host = plant({ENFORCE: "0", CONFIG: "# comment\nSELINUX=enforcing\nSELINUXTYPE=targeted\n"})
    assert values(Selinux(host).collect()) == {
        "node_selinux_enabled": 1,
        "node_selinux_current_mode": 0,
        "node_selinux_config_mode": 1,
    }


def test_machine_without_selinux_reports_only_that(plant, values) -> None:
    host = plant({CONFIG: "SELINUX=enforcing\n"})
    assert values(Selinux(host).collect()) == {"node_selinux_enabled": 0}


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("SELINUX=permissive", 0),
        ("SELINUX = disabled", -1),
        ('SELINUX="Enforcing"', 1),
        ("#SELINUX=enforcing", None),
        ("SELINUX=perhaps", None),
        ("", None),
    ],
)
def test_configured_mode_is_parsed(text: str, mode: float | None) -> None:
    assert parse_config(text) == mode
