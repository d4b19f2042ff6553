import http.client
import json
import logging
import re
import threading
from contextlib import contextmanager
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from serve.running import running

from espnet_diverse.demo.examples import Example
from espnet_diverse.demo.routes import BODY, page
from espnet_diverse.errors import DataError
from espnet_diverse.serve.limits import Limits

EXAMPLES = [Example("a b.wav", b"RIFF", "one two"), Example("c.flac", b"fLaC")]
ABOUT = {
    "name": "stand-in",
    "examples": [{"name": "a b.wav", "reference": "one two"}, {"name": "c.flac", "reference": ""}],
}


class StandIn:
    """A service that answers with what it was asked, when it may."""

    live = None

    def __init__(self, limits):
        self.limits = limits
        self.may = threading.Event()
        self.may.set()
        self.asked = []
        self.begun = threading.Semaphore(0)

    def about(self):
        return {"name": "stand-in"}

    def run(self, body, choices):
        self.asked.append(body)
        self.begun.release()
        assert self.may.wait(20)
        if body == b"wrong":
            raise DataError("talk.wav: is wrong; give another")
        if body == b"broken":
            raise RuntimeError("a secret of the model")
        return {"length": len(body), "choices": choices}

    def heads(self, body, choices):
        return {"plots": [], "choices": choices}


@contextmanager
def serving(limits, **how):
    service = StandIn(limits)
    with running(page(service, EXAMPLES), **how) as server:
        server.service = service
        try:
            yield server
        finally:
            service.may.set()


@pytest.fixture(scope="module")
def server():
    with serving(Limits(megabytes=0.001)) as running:
        yield running


def ask(server, method, path, body=None, **headers):
    """Status, headers and body of an answer; JSON is read. A header that is None is left away."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    given = {"Host": f"127.0.0.1:{server.port}"}
    if method == "POST":
        given |= {"Content-Type": BODY, "Content-Length": str(len(body or b""))}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in given.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, json.loads(content) if "json" in answer.headers["Content-Type"] else content


def message(said):
    return said["error"]["message"]


class Addresses(HTMLParser):
    """What a page loads, and whether it has code or style of its own."""

    def __init__(self, page):
        super().__init__()
        self.addresses, self.inline = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.addresses += [attributes[name] for name in ("src", "href") if name in attributes]
        self.inline += [name for name in attributes if name.startswith("on") or name == "style"]
        self.inline += [tag] if tag == "style" or (tag == "script" and "src" not in attributes) else []


def test_it_listens_on_this_machine_alone(server):
    assert server._socket.getsockname()[0] == "127.0.0.1" and server.url == f"http://127.0.0.1:{server.port}/"


def test_the_page_loads_nothing_from_elsewhere(server):
    status, headers, content = ask(server, "GET", "/")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    page = Addresses(content.decode())
    assert page.inline == [] and len(page.addresses) == 3
    loaded, waiting = {}, {address for address in page.addresses if address != "data:,"}
    while waiting:
        address = waiting.pop()
        loaded[address] = ask(server, "GET", address)
        found = re.findall(r'(?:from |addModule\()"([^"]+)"', loaded[address][2].decode())
        waiting |= set(found) - loaded.keys()
    there = {f"/{file.name}" for file in files("espnet_diverse.demo").joinpath("page").iterdir()}
    assert loaded.keys() == there - {"/index.html"} and {"/page.css", "/page.js", "/microphone.js"} < loaded.keys()
    for address, (status, headers, content) in loaded.items():
        assert status == 200 and headers["Content-Type"].startswith(("text/css", "text/javascript")), address
        assert b"//" not in re.sub(rb"(?m)(^|  )//.*$|/\*.*?\*/", b"", content), address
        assert b"innerHTML" not in content and b"eval(" not in content


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("GET", "/about"), ("GET", "/no"), ("POST", "/run")])
def test_every_answer_keeps_other_pages_out(server, method, path):
    _, headers, _ = ask(server, method, path, Origin=f"http://127.0.0.1:{server.port}")
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'" and policy["script-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store" and "Python" not in headers["Server"]
    assert not [name for name in headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "192.168.0.1", "[::1]:80", "[", ""])
def test_a_host_that_is_not_this_machine_is_refused(server, host):
    for method, path in (("GET", "/"), ("GET", "/about"), ("POST", "/run")):
        status, _, said = ask(server, method, path, Host=host)
        assert (status, message(said)) == (403, f"host {host!r} is not this machine; open {server.url}")


@pytest.mark.parametrize("host", ["localhost:7860", "LOCALHOST", "127.0.0.1:1"])
def test_this_machine_by_another_name_or_through_a_tunnel_is_served(server, host):
    assert ask(server, "GET", "/about", Host=host, Origin=f"http://{host}")[::2] == (200, ABOUT)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_requests_of_other_pages_are_refused(server, origin):
    origin = origin.format(port=server.port)
    before = len(server.service.asked)
    status, _, said = ask(server, "POST", "/run", b"x", Origin=origin)
    assert status == 403 and message(said) == f"requests from {origin!r} are not served; open {server.url}"
    assert len(server.service.asked) == before


def test_a_page_of_another_origin_cannot_ask_for_permission(server):
    assert ask(server, "OPTIONS", "/run", Origin="http://evil.example")[0] == 403
    assert ask(server, "OPTIONS", "/run")[0] == 405


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data", "application/x-www-form-urlencoded", None])
def test_content_types_that_any_page_may_send_are_refused(server, kind):
    status, _, said = ask(server, "POST", "/run", b"x", Content_Type=kind)
    assert (status, message(said)) == (415, "the content type must be application/octet-stream")


def test_a_body_without_a_length_is_refused(server):
    status, _, said = ask(server, "POST", "/run", Content_Length=None)
    assert (status, message(said)) == (411, "the request has no valid Content-Length; send one")
    assert ask(server, "POST", "/run", Content_Length="1" * 16)[0] == 411


@pytest.mark.parametrize("length", ["-1", "many", "1" * 5000, "٣"])
def test_a_length_that_is_no_number_is_no_request(server, length):
    before = len(server.service.asked)
    assert ask(server, "POST", "/run", Content_Length=length.encode())[0] == 400
    assert len(server.service.asked) == before


def test_a_file_that_is_too_large_is_refused_before_it_is_read(server):
    assert ask(server, "POST", "/run", bytes(1000))[0] == 200
    status, _, said = ask(server, "POST", "/run", Content_Length="2500000")
    assert status == 413
    assert message(said) == "the file has 2.5 MB; the limit is 0.001 MB; cut it, or see --max_megabytes"


def test_a_body_that_ends_early_is_not_served(server):
    before = len(server.service.asked)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest("POST", "/run")
    connection.putheader("Content-Type", BODY)
    connection.putheader("Content-Length", "10")
    connection.endheaders(b"short")
    connection.sock.shutdown(1)
    with pytest.raises(http.client.RemoteDisconnected):
        connection.getresponse()
    assert len(server.service.asked) == before and ask(server, "GET", "/about")[0] == 200


@pytest.mark.parametrize("path", ["/nothing", "/../server.py", "/page/index.html", "/%2e%2e/server.py", "http://["])
def test_only_the_page_is_there(server, path):
    for method in ("GET", "POST"):
        status, _, said = ask(server, method, path, None if method == "GET" else b"")
        assert status == 404 and message(said).endswith(": not found")


def test_choices_arrive(server):
    _, _, said = ask(server, "POST", "/run?language=el&name=%CE%B1+b.wav", b"abc")
    assert said == {"length": 3, "choices": {"language": "el", "name": "α b.wav"}}
    assert ask(server, "POST", "/heads?layer=2", b"")[2] == {"plots": [], "choices": {"layer": "2"}}


def test_errors_are_one_line_and_end_nothing(server, caplog):
    status, _, said = ask(server, "POST", "/run", b"wrong")
    told = {"message": "talk.wav: is wrong; give another", "type": "invalid_request_error", "param": None, "code": None}
    assert (status, said) == (400, {"error": told})
    with caplog.at_level(logging.ERROR):
        status, _, said = ask(server, "POST", "/run", b"broken")
    expected = "the model failed (RuntimeError); see the terminal of the server for details"
    assert (status, message(said)) == (500, expected)
    assert "a secret of the model" in caplog.text
    assert ask(server, "POST", "/run", b"fine")[0] == 200


def test_no_more_wait_than_are_allowed():
    with serving(Limits(waiting=2)) as server:
        server.service.may.clear()
        statuses = []
        threads = [threading.Thread(target=lambda: statuses.append(ask(server, "POST", "/run", b"x")[0])) for _ in "ab"]
        for thread in threads:
            thread.start()
            assert server.service.begun.acquire(timeout=20)
        status, _, said = ask(server, "POST", "/heads", b"")
        assert status == 429 and message(said) == "2 requests are already waiting; try again later"
        assert ask(server, "GET", "/about")[0] == 200
        server.service.may.set()
        for thread in threads:
            thread.join()
        assert statuses == [200, 200] and ask(server, "POST", "/heads", b"")[0] == 200


def test_programs_are_sent_to_the_server(server):
    for method, path in (("POST", "/v1/audio/transcriptions"), ("GET", "/v1/models")):
        status, _, said = ask(server, method, path, b"" if method == "POST" else None)
        assert status == 404
        assert f"{path}: this is a page for people; programs are answered by: espnet-diverse serve" in message(said)


def test_examples_are_given_by_their_number_alone(server):
    for number, example in enumerate(EXAMPLES):
        status, headers, content = ask(server, "GET", f"/examples/{number}")
        assert (status, headers["Content-Type"], content) == (200, BODY, example.content)
    for path in ("2", "-1", "x", "../about"):
        assert ask(server, "GET", f"/examples/{path}")[0] == 404
