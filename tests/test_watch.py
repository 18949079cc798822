"""The report while a run goes on: who is answered, and that the page follows."""

import http.client
import threading
import time

import pytest
from report_setup import two_runs

from stapo_bench.errors import StapoError
from stapo_bench.presenting.report import watch
from stapo_bench.presenting.report.page import Contents, render_page
from stapo_bench.presenting.report.watch import Page, Server, state

pytestmark = pytest.mark.usefixtures("graded_here")

runs = pytest.fixture(two_runs)


@pytest.fixture
def server():
    found = Server(0, Page("v1", b"<p>one</p>"))
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


def ask(server, method="GET", path="/", **headers):
    """Status, body and headers of one request; Host is the server's own unless another is given."""
    port = server.server_address[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers={"Host": f"127.0.0.1:{port}"} | headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, answer.headers


def test_only_loopback_is_bound_and_only_our_own_names_are_answered(server):
    assert server.server_address[0] == "127.0.0.1"
    port = server.server_address[1]
    assert ask(server)[:2] == (200, b"<p>one</p>")
    assert ask(server, Host=f"localhost:{port}")[0] == 200
    for host in (f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", f"127.0.0.1.evil.example:{port}", ""):
        status, body, _ = ask(server, Host=host)
        assert status == 421 and b"one" not in body, host


def test_a_page_that_is_known_is_not_sent_again(server):
    _, _, headers = ask(server)
    assert headers["ETag"] == '"v1"' and headers["X-Content-Type-Options"] == "nosniff"
    assert ask(server, **{"If-None-Match": '"v1"'})[:2] == (304, b"")
    assert ask(server, "HEAD")[:2] == (200, b"")
    server.page = Page("v2", b"two")
    assert ask(server, **{"If-None-Match": '"v1"'})[:2] == (200, b"two")


def test_there_is_one_page_and_nothing_else(server):
    for path in ("/../etc/passwd", "/samples/0001-all.jsonl", "/index.html"):
        assert ask(server, path=path)[0] == 404
    assert ask(server, "POST")[0] == 501


def test_a_state_has_another_name_when_something_grew(runs):
    before = state(runs)
    assert state(runs) == before
    with next((runs[0] / "samples").glob("*.jsonl")).open("a") as file:
        file.write("{")
    assert state(runs) != before


def test_the_page_follows_and_a_failure_is_told_once(server, monkeypatch):
    monkeypatch.setattr(watch, "LOOK_S", 0.001)
    now, told, made, looks, stop = {"state": "v1"}, [], [], [], threading.Event()

    def look():
        looks.append(now["state"])
        return now["state"]

    def make():
        made.append(now["state"])
        if now["state"] == "bad":
            raise StapoError("damaged")
        return Page(now["state"], now["state"].encode())

    thread = threading.Thread(target=watch.keep_current, args=(server, look, make, told.append, stop))
    thread.start()
    try:
        for name, shown in (("v2", b"v2"), ("bad", b"v2"), ("v3", b"v3")):
            now["state"] = name
            end = time.monotonic() + 30
            while looks.count(name) < 4 and time.monotonic() < end:  # the page is made, and looked at again and again
                time.sleep(0.001)
            assert ask(server)[1] == shown
    finally:
        stop.set()
        thread.join()
    assert told == ["damaged"] and made == ["v2", "bad", "v3"]


def test_a_live_page_may_ask_its_server_and_nobody_else(runs):
    page = render_page(Contents(runs=runs), version="v1")
    assert "connect-src &#39;self&#39;" in page and '<meta name="version" content="v1">' in page
