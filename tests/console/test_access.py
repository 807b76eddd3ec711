"""Who is let in, from where, and what a page of another site can do: nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.console.app import ACTIONS, PAGES
from odradek.console.guards import SECURITY_HEADERS, host_problem, origin_problem
from odradek.console.sessions import FAILURES_A_MINUTE, IDLE_MS, MOST_SESSIONS, LoginThrottle, Sessions
from odradek.console.visit import PageHandler
from odradek.testing import Broker, Security

from .conftest import CSRF, TOKEN, Visitor


class ManualTime:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 0.0

    def now_ms(self) -> int:
        return int(self.ms)

    def monotonic_ms(self) -> float:
        return self.ms


def paths(routes: tuple[tuple[str, PageHandler], ...]) -> list[str]:
    """A path of each route."""
    return [path.replace("{broker:int}", "0").replace("{name}", "t") for path, _ in routes]


def test_pages_lead_strangers_to_the_login(broker: Broker, visit: Callable[..., Visitor]) -> None:
    client = visit(broker.bootstrap_servers).client
    for path in paths(PAGES):
        answer = client.get(path, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login"), path


def test_every_answer_has_the_headers(broker: Broker, visit: Callable[..., Visitor]) -> None:
    client = visit(broker.bootstrap_servers).client
    for path in ("/login", "/topics", "/static/console.js", "/nowhere"):
        headers = client.get(path).headers
        assert {name: headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS
    assert "unsafe" not in SECURITY_HEADERS["content-security-policy"]


def test_login_and_logout(broker: Broker, visit: Callable[..., Visitor]) -> None:
    visitor = visit(broker.bootstrap_servers)
    assert "not the token" in visitor.post("/login", "/login", 403, token="another")
    assert "<h1>Topics</h1>" in visitor.log_in()
    old_cookies = dict(visitor.client.cookies)
    assert "Log in" in visitor.post("/topics", "/logout")
    # The cookie alone is worth nothing any more.
    visitor.client.cookies.update(old_cookies)
    assert "Log in" in visitor.get("/topics")


def test_cookies_are_kept_from_scripts_and_other_sites(broker: Broker, visit: Callable[..., Visitor]) -> None:
    client = visit(broker.bootstrap_servers).client
    csrf = CSRF.search(client.get("/login").text)
    assert csrf is not None
    answer = client.post("/login", data={"csrf": csrf[1], "token": TOKEN}, follow_redirects=False)
    session = next(c for c in answer.headers.get_list("set-cookie") if c.startswith("odradek_session_8090="))
    assert {"HttpOnly", "SameSite=strict"} <= set(session.split("; "))


def test_too_many_tries_are_not_looked_at(broker: Broker, visit: Callable[..., Visitor]) -> None:
    visitor = visit(broker.bootstrap_servers)
    for _ in range(FAILURES_A_MINUTE):
        visitor.post("/login", "/login", 403, token="another")
    assert "Too many" in visitor.post("/login", "/login", 429, token=TOKEN)


def test_forms_need_the_token_of_their_session(visitor: Visitor, broker: Broker) -> None:
    for path in (*paths(ACTIONS), "/logout"):
        for csrf in ({}, {"csrf": "another"}):
            assert visitor.client.post(path, data={"name": "forged", **csrf}).status_code == 403
    assert "forged" not in visitor.get("/topics")


def test_a_form_of_another_type_is_refused(visitor: Visitor) -> None:
    assert visitor.client.post("/create-topic", json={"name": "t"}).status_code == 415


@pytest.mark.parametrize(
    "host", ["localhost:8090", "127.0.0.1", "[::1]:8090", "10.0.0.7:80", "kafka.example"]
)
def test_hosts_that_are_right(host: str) -> None:
    assert host_problem(host, {"kafka.example"}) is None


@pytest.mark.parametrize("host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example"])
def test_other_hosts_are_refused(visitor: Visitor, host: str) -> None:
    """DNS rebinding: a name of another site's leads to this machine."""
    assert "--allowed-host" in (host_problem(host, {"kafka.example"}) or "")
    if host:
        assert visitor.client.get("/topics", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example", "host": "127.0.0.1:8090"},
        {"origin": "null", "host": "127.0.0.1:8090"},
        {"origin": "http://127.0.0.1:9999", "host": "127.0.0.1:8090"},
        {"sec-fetch-site": "cross-site", "host": "127.0.0.1:8090"},
        {"sec-fetch-site": "same-site", "host": "127.0.0.1:8090"},
    ],
)
def test_forms_of_other_sites_are_refused(headers: dict[str, str]) -> None:
    assert origin_problem("POST", headers) is not None
    assert origin_problem("GET", headers) is None


def test_own_forms_are_taken() -> None:
    headers = {"origin": "http://localhost:8090", "host": "localhost:8090", "sec-fetch-site": "same-origin"}
    assert origin_problem("POST", headers) is None


def test_sasl_users_log_in_and_the_acls_are_theirs(visit: Callable[..., Visitor]) -> None:
    users = {"admin": "all of it", "bob": "none of it"}
    with Broker(security=Security(users=users, super_users=("User:admin",))) as broker:
        broker.create_topic("secret-plans")
        configs = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
        visitor = visit(broker.bootstrap_servers, token=None, client_configs=configs)
        assert "refuses this user" in visitor.post("/login", "/login", 403, user="bob", password="wrong")
        visitor.log_in(user="bob", password="none of it")
        assert "secret-plans" not in visitor.get("/topics")
        visitor.post("/topics", "/logout")
        assert "secret-plans" in visitor.log_in(user="admin", password="all of it")


def test_sessions_end() -> None:
    time = ManualTime()
    sessions = Sessions(time)
    admin: object = object()
    idle, used = sessions.open(None, admin), sessions.open("bob", admin)  # type: ignore[arg-type]
    time.ms = IDLE_MS
    assert sessions.get(used.session_id) is used
    time.ms += 1
    assert sessions.get(idle.session_id) is None
    assert sessions.take_over() == [idle]
    for _ in range(MOST_SESSIONS):
        sessions.open(None, admin)  # type: ignore[arg-type]
    assert sessions.take_over() == [used]
    assert sessions.remove(used.session_id) is None


def test_a_throttle_forgets_after_a_minute() -> None:
    time = ManualTime()
    throttle = LoginThrottle(time)
    for _ in range(FAILURES_A_MINUTE):
        assert throttle.may_try("::1")
        throttle.failed("::1")
    assert not throttle.may_try("::1")
    assert throttle.may_try("127.0.0.1")
    time.ms += 60_001
    assert throttle.may_try("::1")
