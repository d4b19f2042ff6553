"""Callers of a running server: right and wrong requests, slow ones, and clients who go, each with what it must get."""

import http.client
import json
import random
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import httpx
import numpy as np
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import connect

from espnet_diverse.serve.bodies import GRACE_SECONDS

PATH = "/v1/audio/transcriptions"
PART = 4000  # samples of a message
GONE, AWAY, STARVED = "client gone", "no server", "client too slow"
_BOUNDARY = "between-parts"
_FORM = f"multipart/form-data; boundary={_BOUNDARY}"
_BUSY = {429, 503, 504}
_LOST = (httpx.TransportError, http.client.HTTPException, ConnectionClosed, InvalidHandshake, OSError)
_RESET = struct.pack("ii", 1, 0)  # closing resets the connection


class BusyError(Exception):
    """The server did not take a request, or not in time; the message is OpenAI's code."""


class Call(NamedTuple):
    """A request for the text of a recording: its fields, and the content of the file."""

    fields: dict[str, str]
    recording: bytes

    @property
    def body(self) -> bytes:
        """The form of the request."""
        parts = [(f'name="{name}"', value.encode()) for name, value in self.fields.items()]
        parts.append(('name="file"; filename="talk.wav"', self.recording))
        head = f"--{_BOUNDARY}\r\nContent-Disposition: form-data; "
        written = [f"{head}{name}\r\n\r\n".encode() + value + b"\r\n" for name, value in parts]
        return b"".join([*written, f"--{_BOUNDARY}--\r\n".encode()])


def post(port: int, body: bytes, seconds: float = 0.0, kind: str = _FORM, **headers: str) -> tuple[int, str]:
    """Status and text of the answer to a body that is sent within some seconds, in up to 40 parts."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        length = {} if "Transfer-Encoding" in headers else {"Content-Length": str(len(body))}
        connection.request("POST", PATH, headers={"Content-Type": kind, **length, **headers})
        count = 40 if seconds else 1
        for number in range(count):
            connection.send(body[number * len(body) // count : (number + 1) * len(body) // count])
            if select.select([connection.sock], [], [], seconds / count)[0]:
                break  # the server has answered before the end of the body
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def content(status: int, text: str) -> Any:
    """What every request of the same recording gets: texts and times; scores differ in the last digits.

    Raises:
        BusyError: The server did not take the request.
    """
    if status in _BUSY:
        raise BusyError(json.loads(text)["error"]["code"])
    assert status == 200, (status, text)
    if not text.startswith("{"):
        return text
    found = json.loads(text)
    times = [(one["text"], one["start"], one["end"]) for one in found.get("segments", [])]
    return found["text"], times, found.get("words")


def answered(port: int, call: Call, seconds: float = 0.0) -> Any:
    """The content of the answer to a call.

    Raises:
        BusyError: See `content`; or this client itself sent for so long, on a busy machine, that it was too slow.
    """
    began = time.monotonic()
    status, text = post(port, call.body, seconds)
    if status == 408 and time.monotonic() - began > max(GRACE_SECONDS, 2 * seconds):
        raise BusyError(STARVED)
    return content(status, text)


def streamed(port: int, call: Call, most: int = 10**9) -> Any:
    """The text that comes as events, as the content of an answer; None after `most` events, when the client goes."""
    fields = {name: value for name, value in call.fields.items() if name in ("model", "prompt")}
    body = Call(fields | {"stream": "true"}, call.recording).body
    with httpx.stream(
        "POST", f"http://127.0.0.1:{port}{PATH}", content=body, headers={"Content-Type": _FORM}, timeout=120
    ) as told:
        if told.status_code != 200:
            return content(told.status_code, told.read().decode())
        text = ""
        for number, line in enumerate(line for line in told.iter_lines() if line):
            if number == most:
                return None
            event = json.loads(line.removeprefix("data: "))
            if "error" in event:
                raise BusyError(event["error"]["code"])
            text += event.get("delta", "")
    assert event["type"] == "transcript.text.done" and event["text"] == text
    return text, [], None


def spoken(port: int, model: str, pcm: np.ndarray, parts: int = 10**9) -> Any:
    """The final texts of a live recording; None where the client goes after some parts."""
    try:
        url = f"ws://127.0.0.1:{port}/v1/audio/stream?model={model}"
        with connect(url, open_timeout=60, ping_timeout=None) as live:  # a busy server reads pings late, after samples
            with suppress(ConnectionClosed):  # an error comes before the end of what is sent
                for number, at in enumerate(range(0, len(pcm), PART)):
                    if number == parts:
                        return live.socket.close()
                    live.send(pcm[at : at + PART].tobytes())
                live.send("end")
            found = []
            with suppress(ConnectionClosed):
                found.extend(json.loads(message) for message in live)
    except InvalidStatus as error:
        return content(error.response.status_code, error.response.body.decode())
    if not found or found[-1]["type"] not in ("end", "error"):
        raise ConnectionError(f"a stream ends after {found}")
    if "error" in found[-1]:
        raise BusyError(found[-1]["error"]["code"])
    return [(one["text"], one["start"], one["end"]) for one in found if one["type"] == "final"]


def given_up(port: int, call: Call, draw: random.Random) -> None:
    """Go while the body is sent or the answer is awaited; some connections are reset."""
    share, body = draw.choice([draw.random(), 1.0]), call.body
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {_FORM}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        if draw.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection.sendall(head.encode() + body[: round(share * len(body))])
        time.sleep(draw.uniform(0, 0.5))


def refused(port: int, call: Call, draw: random.Random) -> str:
    """The status of a wrong request, which is checked.

    Raises:
        BusyError: The server did not take the request.
    """
    model, body = {"model": call.fields["model"]}, call.body
    wrong: list[tuple[int, Callable[[], tuple[int, str]]]] = [
        (400, lambda: post(port, Call(model | {"response_format": "xml"}, call.recording).body)),
        (400, lambda: post(port, Call(model | {"colour": "red"}, call.recording).body)),
        (404, lambda: post(port, Call({"model": "none"}, call.recording).body)),
        (400, lambda: post(port, Call(model, b"this is no audio").body)),
        (400, lambda: post(port, body[:-100])),
        (413, lambda: post(port, bytes(4_000_000))),
        (415, lambda: post(port, body, kind="text/plain")),
        (411, lambda: post(port, b"0\r\n\r\n", **{"Transfer-Encoding": "chunked"})),
        (404, lambda: _get(port, "/etc/passwd")),
        (405, lambda: _get(port, PATH)),
        (403, lambda: post(port, body, Origin="https://elsewhere.example")),
    ]
    expected, send = draw.choice(wrong)
    status, text = send()
    if status in _BUSY:
        content(status, text)
    error = json.loads(text)["error"]
    assert status == expected and error["message"] and error["type"], (expected, status, text)
    return f"refused with {status}"


def _get(port: int, path: str) -> tuple[int, str]:
    found = httpx.get(f"http://127.0.0.1:{port}{path}", timeout=120)
    return found.status_code, found.text


class Load:
    """Callers who ask again and again, until the block ends.

    Args:
        port: Port of the server.
        calls: What they may ask.
        live: A model that streams, and samples for it.
        late: A call whose body is sent for longer than a request may take, and that time.

    Attributes:
        found: Numbers of what the callers got, by kind of request and result.
        failures: What nobody should get.
        saved: Number of requests that had begun when the server was told to end, and were answered.
    """

    def __init__(self, port: int, calls: Sequence[Call], live: tuple[str, np.ndarray], late: tuple[Call, float]):
        self.port, self.calls, self.live, self.late = port, calls, live, late
        self.expected = [answered(port, call) for call in calls]
        self.expected_streams = [streamed(port, call) for call in calls]
        self.expected_live, self.expected_late = spoken(port, *live), answered(port, late[0])
        self.found: Counter[tuple[str, str]] = Counter()
        self.failures: list[str] = []
        self.saved = 0
        self._away: list[list[float]] = []
        self._ends = threading.Event()
        self._lock = threading.Lock()

    def leave(self) -> None:
        """Note that the server is told to end now."""
        self._away.append([time.monotonic(), float("inf")])

    def come_back(self) -> None:
        """Note that it serves again."""
        self._away[-1][1] = time.monotonic()

    def run(self, callers: int, work: Callable[[], None]) -> None:
        """Do something while callers ask."""
        threads = [threading.Thread(target=self._call, args=(number,)) for number in range(callers)]
        for thread in threads:
            thread.start()
        try:
            work()
        finally:
            self._ends.set()
            for thread in threads:
                thread.join()

    def _call(self, number: int) -> None:
        draw, kinds = random.Random(number), ["answer", "events", "live", "slow", "gone", "wrong"]
        turns = [kinds[(number + turn) % 6] for turn in range(6)]  # each kind soon
        while not self._ends.is_set() and not self.failures:
            kind = turns.pop() if turns else draw.choices([*kinds, "late"], [60, 20, 10, 10, 20, 20, 1])[0]
            began = time.monotonic()
            try:
                result = self._one(kind, draw)
            except BusyError as error:
                result = str(error)
                if result == "service_unavailable" and not self._may_be_away(began):
                    self.failures.append(f"{kind}: {result}")
                self._ends.wait(draw.uniform(0.1, 1.0))
            except _LOST as error:
                result = AWAY
                if not self._may_be_away(began):
                    self.failures.append(f"{kind}: {error!r}")
                self._ends.wait(0.2)
            except Exception as error:
                result = "wrong"
                self.failures.append(f"{kind}: {error!r}")
            with self._lock:
                self.found[kind, result] += 1
                told = [at for at, _ in self._away if began < at < time.monotonic()]
                self.saved += bool(told) and result == "answered"

    def _one(self, kind: str, draw: random.Random) -> str:
        number = draw.randrange(len(self.calls))
        call, expected = self.calls[number], self.expected[number]
        if kind == "wrong":
            return refused(self.port, call, draw)
        if kind == "gone":
            with suppress(BusyError, *_LOST):
                going = [
                    lambda: given_up(self.port, call, draw),
                    lambda: streamed(self.port, call, draw.randrange(2)),
                    lambda: spoken(self.port, *self.live, draw.randrange(3)),
                ]
                draw.choice(going)()
            return GONE
        if kind == "late":  # answered where a busy server began to read it late, and so has not seen it for too long
            found, expected = answered(self.port, *self.late), self.expected_late
        elif kind == "live":
            found, expected = spoken(self.port, *self.live), self.expected_live
        elif kind == "events":
            found, expected = streamed(self.port, call), self.expected_streams[number]
        else:
            found = answered(self.port, call, draw.uniform(1.0, 3.0) if kind == "slow" else 0.0)
        assert found == expected, f"{found} is not {expected}"
        return "answered"

    def _may_be_away(self, began: float) -> bool:
        """Whether the server may not have been there for a request; one of a second before may not have reached it."""
        return any(gone - 1.0 <= began <= back for gone, back in self._away)
