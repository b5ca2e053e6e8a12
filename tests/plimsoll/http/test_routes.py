from http import HTTPStatus

import pytest

from plimsoll.http.routes import Route, Routes
from plimsoll.http.types import Request, Response, plain_rejection


async def echo(request):
    return Response(HTTPStatus.OK, request.path.encode())


ROUTES = Routes(
    {"/a": Route(echo), "/post": Route(echo, ("POST",)), "/below/": Route(echo)}, plain_rejection
)


async def ask(method, path):
    return await ROUTES.answer(Request(method, path, {}, {}))


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/a"), ("HEAD", "/a"), ("POST", "/post"), ("GET", "/below/x/y"), ("GET", "/below/")],
)
async def test_route_is_chosen_by_method_and_path(method, path):
    assert (await ask(method, path)).body == path.encode()


@pytest.mark.parametrize("path", ["", "/", "/a/", "/A", "/below", "/post/x", "a", "*"])
async def test_unknown_path_is_a_404(path):
    assert (await ask("GET", path)).status == HTTPStatus.NOT_FOUND


async def test_a_route_of_the_root_is_not_a_prefix():
    routes = Routes({"/": Route(echo), "/below/": Route(echo)}, plain_rejection)
    found = [await routes.answer(Request("GET", path, {}, {})) for path in ("/", "/below/x", "/x")]
    assert [one.status for one in found] == [200, 200, 404]


@pytest.mark.parametrize(("method", "path"), [("GET", "/post"), ("POST", "/a"), ("get", "/a")])
async def test_other_method_is_a_405_with_allow(method, path):
    refusal = await ask(method, path)
    assert refusal.status == HTTPStatus.METHOD_NOT_ALLOWED
    assert dict(refusal.headers)["allow"] == ("POST" if path == "/post" else "GET, HEAD")


async def test_client_text_is_quoted_in_bounded_length():
    assert len((await ask("X" * 9000, "/a")).body) < 400
    assert len((await ask("GET", "/" + "x" * 9000)).body) < 400
