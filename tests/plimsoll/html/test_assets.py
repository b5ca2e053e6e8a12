"""The stylesheet and the script: named by their hash, small, and free of other origins."""

import re
from http import HTTPStatus

import pytest

from plimsoll.html import assets, headers

MOST_SCRIPT_BYTES = 6 << 10


def test_every_asset_is_served_below_its_hash_and_may_be_kept() -> None:
    for path in assets.load():
        response = assets.answer(path)
        assert response.status == HTTPStatus.OK
        found = dict(response.headers)
        assert "immutable" in found["cache-control"]
        assert found["x-content-type-options"] == "nosniff"
    assert {asset.kind for asset in assets.load().values()} == {"style", "script"}


def test_the_asset_of_another_version_is_not_found() -> None:
    response = assets.answer("/assets/style.000000000000.css")
    assert response.status == HTTPStatus.NOT_FOUND
    assert ("cache-control", "no-store") in response.headers


@pytest.mark.parametrize("asset", assets.load().values(), ids=lambda asset: asset.kind)
def test_assets_load_nothing_from_elsewhere(asset: assets.Asset) -> None:
    assert not re.search(rb"https?:|//[a-z]+\.|@import|url\(", asset.body)


def test_the_script_is_small() -> None:
    (script,) = (asset for asset in assets.load().values() if asset.kind == "script")
    assert len(script.body) <= MOST_SCRIPT_BYTES


def test_the_policy_allows_own_files_only() -> None:
    directives = dict(part.strip().split(" ", 1) for part in headers.POLICY.split(";"))
    assert directives["default-src"] == "'none'"
    assert {source for value in directives.values() for source in value.split()} == {
        "'none'",
        "'self'",
        "data:",
    }
    assert "data:" not in directives["script-src"]
    assert ("cache-control", "no-store") in headers.PAGE
    assert ("referrer-policy", "no-referrer") in headers.PAGE
