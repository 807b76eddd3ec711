"""A table of methods and paths."""

from __future__ import annotations

import pytest

from odradek.util.http_routes import NoRouteError, Request, Routes

ROUTES = Routes([("GET", "/", "root"), ("GET", "/faults/{id}", "fault"), ("DELETE", "/faults/{id}", "lift")])


def test_words_and_query() -> None:
    route = ROUTES.find(Request("GET", "/faults/a%2Fb/?x=1&x=2&y="))
    assert (route.action, route.words, route.query) == ("fault", {"id": "a/b"}, {"x": "2", "y": ""})
    assert ROUTES.find(Request("GET", "/")).action == "root"


@pytest.mark.parametrize(
    ("method", "target", "methods"),
    [
        ("POST", "/faults/1", ["GET", "DELETE"]),
        ("GET", "/faults", []),
        ("GET", "//[", []),  # no address at all
    ],
)
def test_what_nothing_answers(method: str, target: str, methods: list[str]) -> None:
    with pytest.raises(NoRouteError) as refused:
        ROUTES.find(Request(method, target))
    assert list(refused.value.methods) == methods
