"""Many callers at once: they share batches, get the answers of single requests, and leave no memory behind."""

import gc
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from references.held import held
from serve.conftest import LIMITS, client_of
from serve.running import counted, running, wait_for
from serve.test_transcriptions import wav

from espnet_diverse.errors import DataError
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.models import Models
from espnet_diverse.serve.transcriptions import api


def asked(index):
    """The request of caller `index`: recordings of several lengths, some with times, hotwords or as a stream."""
    fields = {"file": ("a.wav", wav(0.5 + 0.25 * (index % 7), index).getvalue()), "model": "tones"}
    if index % 4 == 1:
        fields |= {"response_format": "verbose_json", "timestamp_granularities": ["word", "segment"]}
    if index % 8 == 2:
        fields["prompt"] = "dddd"
    return fields


def content(found):
    """Text and times of an answer; scores differ in their last digits with the batch."""
    times = [(one.text, one.start, one.end) for one in getattr(found, "segments", [])]
    return found.text, times, [(one.word, one.start, one.end) for one in getattr(found, "words", [])]


def test_callers_share_batches_and_get_the_answers_of_single_requests(served, monkeypatch):
    create = served.client.audio.transcriptions.create
    alone = [content(create(**asked(index))) for index in range(24)]
    sizes = []
    batches = served.models._loaded["tones"].batches
    transcribe = batches.transcribe
    monkeypatch.setattr(batches, "transcribe", lambda jobs, kind: (sizes.append(len(jobs)), transcribe(jobs, kind))[1])
    with ThreadPoolExecutor(24) as pool:
        together = list(pool.map(lambda index: content(create(**asked(index))), range(24)))
    assert together == alone and len(set(map(str, alone))) > 8
    assert sum(sizes) == 24 and max(sizes) > 4


def test_two_hundred_at_once_are_answered_or_told_to_come_again(load):
    limits = Limits(waiting=40)
    body = wav(0.5).getvalue()

    def call(client):
        answer = client.post("/v1/audio/transcriptions", files={"file": ("a.wav", body)})
        return answer.status_code, answer.json().get("text"), answer.headers.get("Retry-After")

    with running(api(Models(["tones"], lambda name: load(name, limits), 1), limits)) as server:
        limit = httpx.Limits(max_connections=200)
        with httpx.Client(base_url=server.url, limits=limit, timeout=120) as client:
            expected = call(client)
            with ThreadPoolExecutor(200) as pool:
                found = Counter(pool.map(lambda _: call(client), range(200)))
            assert expected[0] == 200 and call(client) == expected
    assert set(found) <= {expected, (429, None, "1")} and found[expected] >= 40
    assert sum(found.values()) == 200


def test_a_caller_who_goes_leaves_the_queue(served):
    batches = served.models._loaded["tones"].batches
    gone = 'requests_total{path="/v1/audio/transcriptions",status="499"}'
    before = counted(gone)
    with served.recognizer("tones").search._lock:  # the first is being searched, the second waits
        for fields in ({}, {"stream": "true"}):
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(
                    f"{served.server.url}v1/audio/transcriptions",
                    files={"file": ("a.wav", wav(1.0).getvalue())},
                    data={"model": "tones"} | fields,
                    timeout=httpx.Timeout(30, read=1.0),
                )
        wait_for(lambda: not batches._waiting)
        assert not batches.is_idle
    wait_for(lambda: batches.is_idle)
    assert counted(gone) == before + 1  # the events of the other had begun


def test_a_request_has_an_end(load):
    limits, late = Limits(request_seconds=1.0), 'refused_total{reason="timeout"}'
    models = Models(["tones"], lambda name: load(name, limits), 1)
    with running(api(models, limits)) as server, client_of(server) as client:
        expected = client.audio.transcriptions.create(file=wav(1.0), model="tones").text
        before = counted(late)
        with load.recognizer("tones").search._lock:
            with pytest.raises(openai.InternalServerError) as caught:
                client.audio.transcriptions.create(file=wav(1.0), model="tones")
            with pytest.raises(openai.APIError, match="took longer than 1 seconds; .* a larger --max_request_seconds"):
                list(client.audio.transcriptions.create(file=wav(1.0), model="tones", stream=True))
        assert caught.value.status_code == 504 and caught.value.code == "timeout"
        assert caught.value.type == "server_error" and counted(late) == before + 2
        wait_for(lambda: models._loaded["tones"].batches.is_idle)
        assert client.audio.transcriptions.create(file=wav(1.0), model="tones").text == expected


def test_audio_is_freed_once_its_request_is_answered(served):
    """The memory of a recording does not wait for Python's collector of cycles."""

    def refuse(*_, **__):
        raise DataError("no")

    seen = []
    batches = served.models._loaded["tones"].batches
    submit = batches.submit
    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batches, "submit", lambda job: (seen.append(weakref.ref(job.request.audio)), submit(job))[1])
            for fields in ({}, {"stream": True}):
                found = served.client.audio.transcriptions.create(file=wav(1.0), model="tones", **fields)
                assert list(found)
            patch.setattr(served.models._loaded["tones"].search, "find", refuse)
            with pytest.raises(openai.BadRequestError):
                served.client.audio.transcriptions.create(file=wav(1.0), model="tones")
        wait_for(lambda: len(seen) == 3 and all(one() is None for one in seen))
    finally:
        gc.enable()


@pytest.mark.trust
def test_memory_files_and_threads_are_flat_over_a_thousand_requests(load, capsys):
    with running(api(Models(["tones"], load, 1), LIMITS)) as server, client_of(server) as client:

        def call(index):
            return client.audio.transcriptions.create(**asked(index % 16)).text

        seen = []
        with ThreadPoolExecutor(16) as pool:
            for _ in range(10):  # the heap grows ever less before it is as fragmented as it will be
                list(pool.map(call, range(250)))
                seen.append(held())
    listed = "; ".join(f"{one.megabytes:.0f} MB, {one.files} files, {one.threads} threads" for one in seen)
    with capsys.disabled():
        print(f"\n2,500 requests, after each 250: {listed}")
    assert seen[-1].megabytes - seen[5].megabytes < 25  # of the last thousand
    assert abs(seen[-1].files - seen[0].files) < 16 and seen[-1].threads <= seen[0].threads + 1
