"""Who is served, and what the log says of it. What browsers are told is tested with the page, in test_routes.py."""

import asyncio
import logging

import httpx
import openai
import pytest
from serve.conftest import client_of
from serve.running import counted, running, wait_for
from serve.test_transcriptions import wav
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from espnet_diverse.serve import access
from espnet_diverse.serve.access import Access
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.models import Models
from espnet_diverse.serve.transcriptions import api

KEY = "a long secret"


@pytest.fixture(scope="module")
def closed(load):
    """A server of one model that needs a key."""
    limits = Limits()
    with running(api(Models(["tones"], load, 1), limits), key=KEY) as server:
        yield server


def get(server, path, **headers):
    return httpx.get(f"{server.url}{path}", headers=headers)


def test_a_key_is_needed_where_there_is_one(closed):
    with client_of(closed, KEY) as client:
        assert [one.id for one in client.models.list()] == ["tones"]
        assert client.audio.transcriptions.create(file=wav(0.75), model="").text
    for key in (b"none", KEY[:-1].encode(), KEY.encode() + b"x", b"x" * 10_000, "é".encode()):
        assert get(closed, "v1/models", Authorization=b"Bearer " + key).status_code == 401
    assert get(closed, "v1/models", Authorization=f"Basic {KEY}").status_code == 401
    refused = get(closed, "v1/models")
    assert refused.status_code == 401 and refused.headers["WWW-Authenticate"] == "Bearer"
    said = {"message": "the key is missing or wrong; send the header Authorization: Bearer KEY", "param": None}
    assert refused.json()["error"] == {**said, "type": "authentication_error", "code": "invalid_api_key"}
    with client_of(closed, "wrong") as client, pytest.raises(openai.AuthenticationError):
        client.audio.transcriptions.create(file=wav(0.75), model="tones")


@pytest.mark.parametrize("code", ["utf-8", "latin-1"])
def test_a_key_may_have_letters_outside_ascii(code):
    heard = {}

    async def send(message):
        heard.update(message)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    for key, status in (("clé à", 200), ("clé", 401), ("Ã©", 401)):
        headers = [(b"host", b"h"), (b"authorization", f"Bearer {key}".encode(code))]
        scope = {"type": "http", "path": "/v1/models", "headers": headers}
        asyncio.run(Access(app, "http://h/", "clé à")(scope, None, send))
        assert heard["status"] == status


def test_the_log_has_answers_after_an_error_of_the_application(caplog):
    async def send(message):
        assert message["status"] == 500

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 500, "headers": []})
        raise MemoryError  # as Starlette does after its answer

    scope = {"type": "http", "path": "/v1/models", "headers": [(b"host", b"localhost")]}
    with caplog.at_level(logging.INFO), pytest.raises(MemoryError):
        asyncio.run(Access(app, "http://localhost/")(scope, None, send))
    assert " http /v1/models 500 " in caplog.text


def test_more_requests_than_are_answered_at_a_time(closed, monkeypatch):
    before = counted('refused_total{reason="connections"}')
    monkeypatch.setattr(access, "_MOST", 0)
    answer = get(closed, "health")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert answer.json()["error"]["type"] == "server_error"
    assert counted('refused_total{reason="connections"}') == before + 1


def test_health_needs_no_key_and_tells_nothing(closed):
    assert get(closed, "health").json() == {"status": "ok"}


def test_a_key_serves_other_hosts_and_their_own_page_alone(closed):
    own = {"Authorization": f"Bearer {KEY}", "Host": "speech.example"}
    assert get(closed, "v1/models", **own).status_code == 200
    assert get(closed, "v1/models", **own, Origin="https://speech.example").status_code == 200
    assert get(closed, "v1/models", **own, Origin="https://evil.example").status_code == 403


def test_a_websocket_needs_the_key_too(closed):
    url = f"ws://127.0.0.1:{closed.port}/v1/audio/stream"
    with pytest.raises(InvalidStatus) as caught:
        connect(url)
    assert caught.value.response.status_code == 401
    with connect(url, additional_headers={"Authorization": f"Bearer {KEY}"}) as socket:
        assert "this model does not stream" in socket.recv(60)


def test_without_a_key_this_machine_alone_is_served(served):
    assert get(served.server, "v1/models").status_code == 200
    for headers in ({"Host": "speech.example"}, {"Origin": "http://evil.example"}):
        answer = get(served.server, "v1/models", **headers)
        assert answer.status_code == 403 and answer.json()["error"]["type"] == "permission_error"


@pytest.mark.parametrize("path", ["etc/passwd", "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "v1/files", "page.js"])
def test_no_file_is_served(served, path):
    answer = get(served.server, path)
    assert answer.status_code == 404 and answer.json()["error"]["message"].endswith(": not found")


def test_the_log_has_no_texts_and_no_names(served, caplog):
    with caplog.at_level(logging.DEBUG):
        text = served.client.audio.transcriptions.create(
            file=("my secret.wav", wav(0.75).getvalue()), model="tones", prompt="dcdc"
        ).text
        get(served.server, "v1/models?token=hidden")
        wait_for(lambda: "http /v1/models 200" in caplog.text)  # each line is written after its answer
    ours = "".join(f"{record.getMessage()}\n" for record in caplog.records if record.name.startswith("espnet_diverse"))
    assert "http /v1/audio/transcriptions 200" in ours and "http /v1/models 200" in ours
    assert text and not any(each in ours for each in (text, "secret", "dcdc", "hidden"))


def test_a_path_is_one_word_of_one_line_of_the_log(served, caplog):
    def lines():
        return [record.getMessage() for record in caplog.records if record.name.endswith("serve.access")]

    with caplog.at_level(logging.INFO):
        get(served.server, "x%0a2026-11-27%20forged%e2%80%a8é")
        wait_for(lines)
    (line,) = lines()
    assert " http /x%0A2026-11-27%20forged%E2%80%A8%C3%A9 404 " in line
