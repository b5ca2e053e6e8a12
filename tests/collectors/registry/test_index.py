"""The index says the same of a collector as its module."""

import dataclasses
import json

import pytest

from collectors import registry
from collectors.registry import COLLECTORS, index
from collectors.registry.registered import load
from plimsoll import flags

WITH_FLAGS = [name for name, entry in COLLECTORS.items() if list(flags.options(entry.options))]


def test_index_is_that_of_the_modules() -> None:
    assert index.FILE.read_text() == index.text(registry.entries()), "run `make docs`"


@pytest.mark.parametrize("name", COLLECTORS)
def test_collector_that_is_not_in_the_index_is_read_from_its_module(name, tmp_path, monkeypatch):
    monkeypatch.setattr(index, "FILE", tmp_path / "index.json")
    (found,) = index.registered([name])
    same = [field.name for field in dataclasses.fields(found) if field.name != "options"]
    for field in same:
        assert getattr(found, field) == getattr(COLLECTORS[name], field)


def test_collector_that_is_only_in_the_index_is_ignored(tmp_path, monkeypatch) -> None:
    file = tmp_path / "index.json"
    file.write_text(json.dumps({"removed": {"about": "", "prefixes": []}}))
    monkeypatch.setattr(index, "FILE", file)
    assert [entry.name for entry in index.registered(["arp"])] == ["arp"]


@pytest.mark.parametrize("name", WITH_FLAGS)
def test_flags_in_the_index_are_those_of_the_module(name: str) -> None:
    declared = dict(flags.options(load(name).options))
    indexed = {field.name: (field, opt) for field, opt in flags.options(COLLECTORS[name].options)}
    assert list(indexed) == [field.name for field in declared]
    for own, opt in declared.items():
        field, same = indexed[own.name]
        assert field.default == own.default
        assert dataclasses.replace(same, parse=opt.parse) == opt
        assert flags.default_text(field.default, same) == flags.default_text(own.default, opt)


@pytest.mark.parametrize("name", WITH_FLAGS)
def test_text_that_the_module_rejects_is_rejected_with_the_same_sentence(name: str) -> None:
    for field, opt in flags.options(load(name).options):
        (same,) = (o for f, o in flags.options(COLLECTORS[name].options) if f.name == field.name)
        for text in ("", "x", "0", "-1", "(", "12", "/a/b", "a:b"):
            assert outcome(same.parse, text) == outcome(opt.parse, text), opt.flag


def outcome(parse, text):
    try:
        return parse(text)
    except ValueError as error:
        return f"rejected: {error}"


def test_values_that_do_not_go_together_are_rejected_by_the_module() -> None:
    with pytest.raises(ValueError, match="no loopback address"):
        COLLECTORS["ntp"].options(ntp_server="192.0.2.1")
    allowed = COLLECTORS["ntp"].options(ntp_server="192.0.2.1", ntp_is_local=True)
    assert allowed.ntp_server == "192.0.2.1"
