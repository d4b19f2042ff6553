"""OpenAI's protocol, with OpenAI's client as the judge."""

import io
import itertools
import json
import threading
import zlib

import httpx
import numpy as np
import openai
import pytest
import soundfile
from references.tones import RATE, tones
from serve.conftest import client_of
from serve.running import running
from websockets.sync.client import connect

from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.models import Models
from espnet_diverse.serve.transcriptions import NOTICES, api


def wav(seconds, seed=0, rate=RATE):
    """A recording as a file that a client sends."""
    file = io.BytesIO()
    soundfile.write(file, tones(seconds, seed, rate), rate, format="wav")
    file.name = "talk.wav"
    file.seek(0)
    return file


@pytest.fixture(scope="module")
def spoken():
    """Samples of two recordings with a pause between them."""
    return np.concatenate([tones(1.0, 1), np.zeros(RATE, np.float32), tones(1.5, 2)])


def file_of(samples):
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="flac")
    return ("talk.flac", file.getvalue())


@pytest.fixture(scope="module")
def expected(served, spoken):
    """The transcript of the recognizer, with times of words."""
    samples, _ = soundfile.read(io.BytesIO(file_of(spoken)[1]), dtype="float32")
    transcript = served.recognizer("tones").transcribe(samples, RATE, word_timestamps=True)
    assert len(transcript.segments) == 2 and all(segment.words for segment in transcript.segments)
    return transcript


def test_json_and_text(served, spoken, expected):
    create = served.client.audio.transcriptions.create
    assert create(file=file_of(spoken), model="tones").text == expected.text
    found = create(file=file_of(spoken), model="tones", response_format="text", temperature=0.5)
    assert found == f"{expected.text}\n"


@pytest.mark.parametrize("kind", ["srt", "vtt"])
@pytest.mark.parametrize("words", [True, False])
def test_subtitles(served, spoken, expected, kind, words):
    from dataclasses import replace

    from espnet_diverse.transcription.formats import FORMATS

    asked = {"timestamp_granularities": ["word"]} if words else {}
    found = served.client.audio.transcriptions.create(
        file=file_of(spoken), model="tones", response_format=kind, **asked
    )
    shown = expected if words else replace(expected, segments=[replace(one, words=()) for one in expected.segments])
    assert found == FORMATS[kind](shown, "") and "-->" in found


def test_verbose_json(served, spoken, expected):
    found = served.client.audio.transcriptions.create(
        file=file_of(spoken),
        model="tones",
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
        language="en",
    )
    times = [found.duration, *(each for one in (*found.segments, *found.words) for each in (one.start, one.end))]
    assert times == [round(each, 3) for each in times]
    assert (found.text, found.duration, found.language) == (expected.text, expected.duration, "en")
    assert [(one.id, one.start, one.end, one.text) for one in found.segments] == [
        (number, one.start, one.end, one.text) for number, one in enumerate(expected.segments)
    ]
    tokens = served.recognizer("tones").search.tokens
    for one, of_ours in zip(found.segments, expected.segments, strict=True):
        assert one.tokens == tokens.indices(of_ours.tokens) and one.no_speech_prob is None
        assert one.avg_logprob == pytest.approx(of_ours.score / (len(of_ours.tokens) + 1), rel=1e-4)
        assert one.compression_ratio == len(one.text.encode()) / len(zlib.compress(one.text.encode()))
    words = [word for segment in expected.segments for word in segment.words]
    assert [(one.word, one.start, one.end) for one in found.words] == [
        (one.text, pytest.approx(one.start), pytest.approx(one.end)) for one in words
    ]


def test_only_the_requested_timestamps_are_returned(served, spoken):
    create = served.client.audio.transcriptions.create
    found = create(file=file_of(spoken), model="tones", response_format="verbose_json")
    assert len(found.segments) == 2 and found.words is None and found.language is None
    asked = {"response_format": "verbose_json", "timestamp_granularities": ["word"]}
    found = create(file=file_of(spoken), model="tones", **asked)
    assert found.segments is None and found.words


def test_a_stream_of_events(served, spoken, expected):
    stream = served.client.audio.transcriptions.create(file=file_of(spoken), model="tones", stream=True)
    *deltas, done = list(stream)
    assert {one.type for one in deltas} == {"transcript.text.delta"} and done.type == "transcript.text.done"
    assert "".join(one.delta for one in deltas) == done.text == expected.text


def test_segments_of_a_long_recording_come_before_its_end(served, load, monkeypatch):
    model, heard, searches = served.models._loaded["tones"], threading.Event(), itertools.count()
    find = model.search.find

    def find_the_last_ones_later(*args, **how):
        assert next(searches) < 3 or heard.wait(20)
        return find(*args, **how)

    monkeypatch.setattr(model.search, "find", find_the_last_ones_later)
    monkeypatch.setattr(model, "options", type(model.options)(**vars(model.options) | {"batch_size": 1}))
    file = file_of(tones(20.0, 3))
    events = iter(served.client.audio.transcriptions.create(file=file, model="tones", stream=True))
    first = next(events)
    heard.set()
    *others, done = events
    assert others and "".join(one.delta for one in (first, *others)) == done.text and next(searches) > 3


def test_hotwords_of_a_request_are_its_own(served, spoken, expected):
    create = served.client.audio.transcriptions.create
    other = create(file=file_of(spoken), model="tones", prompt="dddd, dcdc\nbbbb").text
    assert other != expected.text
    assert create(file=file_of(spoken), model="tones", prompt=" , ").text == expected.text
    found = post(served, spoken, prompt="The following is a talk about trains. xyz, dddd!")
    assert found.json()["text"] == create(file=file_of(spoken), model="tones", prompt="dddd").text
    assert found.headers[NOTICES].startswith("1 phrases of the prompt are hotwords")
    for fields in ({"hotwords": "dddd, dcdc, bbbb"}, {"keywords[]": ["dddd, dcdc", "bbbb"]}):
        assert post(served, spoken, **fields).json()["text"] == other
    found = post(served, spoken, prompt="xyz, 你好。", stream="True")
    assert found.status_code == 200 and found.headers[NOTICES].startswith("0 phrases")


def post(served, samples, name="talk.flac", kind="audio/flac", **fields):
    """The answer to a form as it is sent, with fields as OpenAI's and other clients write them."""
    form = {"model": "tones", **fields}
    address = f"{served.server.url}v1/audio/transcriptions"
    return httpx.post(address, data=form, files={"file": (name, file_of(samples)[1], kind)}, timeout=60)


@pytest.mark.parametrize(
    ("fields", "notice"),
    [
        ({"language": "", "prompt": "", "temperature": "", "response_format": " ", "stream": ""}, None),
        ({"language": "auto"}, None),
        ({"timestamp_granularities": "word", "response_format": "verbose_json"}, None),
        ({"timestamp_granularities[]": ["", "segment"]}, None),
        ({"chunking_strategy": "auto"}, "chunking_strategy is not used"),
        ({"chunking_strategy[type]": "server_vad", "chunking_strategy[threshold]": "0.4"}, "chunking_strategy is not"),
        ({"vad_filter": "true"}, "vad_filter is not used: recordings are always split"),
        ({"target_language": "en"}, "target_language is not used: POST to /v1/audio/translations"),
        ({"domain": "news"}, "domain is not used: the model has no domains"),
    ],
    ids=str,
)
def test_optional_fields_of_clients_are_answered(served, spoken, expected, fields, notice):
    found = post(served, spoken, **fields)
    assert (found.status_code, found.json()["text"]) == (200, expected.text)
    assert (found.headers.get(NOTICES) or "").startswith(notice or "") and (NOTICES in found.headers) == bool(notice)


def test_optional_arguments_of_openais_client_are_answered(served, spoken, expected):
    create = served.client.audio.transcriptions.create
    for more in (
        {"chunking_strategy": "auto"},
        {"chunking_strategy": {"type": "server_vad", "prefix_padding_ms": 200, "threshold": 0.5}},
        {"language": "", "prompt": "Talk to Dr. Müller.", "temperature": 0},
    ):
        assert create(file=file_of(spoken), model="tones", **more).text == expected.text


def test_log_probabilities_of_tokens_are_of_their_confidences(served, spoken, expected):
    create = served.client.audio.transcriptions.create
    asked = {"file": file_of(spoken), "model": "tones", "include": ["logprobs"]}
    found = create(**asked)
    *_, done = create(**asked, stream=True)
    assert found.text == done.text == expected.text
    assert [one.to_dict() for one in found.logprobs] == [one.to_dict() for one in done.logprobs]
    confidences = [each for segment in expected.segments for each in segment.confidences]
    assert [np.exp(one.logprob) for one in found.logprobs] == pytest.approx(confidences, rel=1e-3)
    texts = "".join(segment.text for segment in expected.segments)
    assert "".join(one.token for one in found.logprobs).replace(" ", "") == texts.replace(" ", "")
    assert all(bytes(map(int, one.bytes)).decode() == one.token for one in found.logprobs)  # the client has floats
    assert create(file=file_of(spoken), model="tones").logprobs is None


def counted(served):
    """The numbers of /metrics."""
    lines = httpx.get(f"{served.server.url}metrics").text.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_metrics_count_answers_refusals_and_audio(served, spoken):
    before = counted(served)
    post(served, spoken)
    post(served, spoken, response_format="pdf")
    httpx.get(f"{served.server.url}nowhere")
    stream = f"ws://127.0.0.1:{served.server.port}/v1/audio/stream?model=streaming&rate={RATE}"
    with connect(stream) as socket:
        socket.send(bytes(RATE))
        socket.send("end")
        list(socket)
    found = {name: value - before.get(name, 0.0) for name, value in counted(served).items()}
    path = 'path="/v1/audio/transcriptions"'
    for name, value in {
        f'requests_total{{{path},status="200"}}': 1,
        f'requests_total{{{path},status="400"}}': 1,
        'requests_total{path="other",status="404"}': 1,
        'requests_total{path="/v1/audio/stream",status="101"}': 1,
        'refused_total{reason="bad_request"}': 1,
        'refused_total{reason="not_found"}': 1,
        f'request_seconds_bucket{{{path},le="+Inf"}}': 2,
        f"request_seconds_count{{{path}}}": 2,
        'audio_seconds_total{source="file"}': len(spoken) / RATE,
        'audio_seconds_total{source="stream"}': 0.5,
    }.items():
        assert found[f"espnet_diverse_{name}"] == pytest.approx(value), name
    times = [found[f'espnet_diverse_request_seconds_bucket{{{path},le="{bound}"}}'] for bound in ("0.1", "1", "100")]
    assert times == sorted(times)


@pytest.mark.parametrize("name", ["book.m4b", "talk.mpga", "blob", "../é 😀"])
def test_the_name_of_a_file_does_not_matter(served, spoken, expected, name):
    assert post(served, spoken, name, "application/octet-stream").json()["text"] == expected.text


def test_a_model_of_several_languages_transcribes_and_translates(served, spoken):
    recognizer = served.recognizer("many")
    samples, _ = soundfile.read(io.BytesIO(file_of(spoken)[1]), dtype="float32")
    asked = {"file": file_of(spoken), "model": "many"}
    create = served.client.audio.transcriptions.create
    found = create(**asked, language="deu", response_format="verbose_json")
    assert found.text == recognizer.transcribe(samples, RATE, language="deu").text and found.language == "deu"
    found = served.client.audio.translations.create(
        **asked, response_format="verbose_json", extra_body={"target_language": "deu", "language": "eng"}
    )
    ours = recognizer.transcribe(samples, RATE, language="eng", target_language="deu")
    assert found.text == ours.text and found.language == "deu"
    with pytest.raises(openai.BadRequestError, match="language xx: unknown .*; or leave language out") as caught:
        create(**asked, language="xx")
    assert caught.value.param == "language"
    assert create(**asked, language="auto").text == create(**asked).text


def test_a_model_refuses_the_endpoint_of_another_task(served, spoken, monkeypatch):
    with pytest.raises(openai.BadRequestError, match="this model does not translate; POST the recording to"):
        served.client.audio.translations.create(file=file_of(spoken), model="tones")
    monkeypatch.setattr(served.models._loaded["tones"].search, "task", "st")
    with pytest.raises(openai.BadRequestError, match="this model translates; POST the recording to"):
        served.client.audio.transcriptions.create(file=file_of(spoken), model="tones")
    assert served.client.audio.translations.create(file=file_of(spoken), model="tones").text


def test_a_name_may_have_a_slash_and_a_stream_gets_an_error_of_loading():
    def load(name):
        raise OSError("no such disk")

    with running(api(Models(["org/name"], load, 1), Limits())) as server, client_of(server) as client:
        assert client.models.retrieve("org/name").id == "org/name"
        with connect(f"ws://127.0.0.1:{server.port}/v1/audio/stream") as socket:
            said = json.loads(socket.recv(60))
    assert said["type"] == "error" and "the model failed (OSError)" in said["error"]["message"]


def test_models_are_listed(served):
    assert [one.id for one in served.client.models.list()] == ["tones", "streaming", "many"]
    found = served.client.models.retrieve("streaming")
    assert (found.id, found.object, found.owned_by) == ("streaming", "model", "espnet_diverse") and found.created > 1e9
    with pytest.raises(openai.NotFoundError) as caught:
        served.client.models.retrieve("gpt")
    assert caught.value.code == "model_not_found"
    assert "model 'gpt' does not exist; known: tones streaming many" in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"response_format": "xml"},
            "response_format must be one of json text srt vtt verbose_json, but is 'xml'",
        ),
        ({"temperature": 3}, "temperature must be at least 0 and at most 1, but is 3.0"),
        ({"temperature": "hot"}, "temperature must be a number, but is 'hot'"),
        ({"stream": "perhaps"}, "stream must be true or false, but is 'perhaps'"),
        (
            {"stream": True, "response_format": "srt"},
            "response_format srt cannot be combined with stream; set json",
        ),
        (
            {"timestamp_granularities[]": "line"},
            "timestamp_granularities must be one of segment word, but is 'line'",
        ),
        ({"timestamp_granularities[]": "word"}, "response_format json cannot be combined with timestamp_gran"),
        ({"beams": "5"}, "unknown option 'beams' of a request"),
        ({"prompt": "a" * 6000}, "prompt must be a text of at most 5000 characters, but is '6000 characters'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_fields_that_are_refused(served, fields, message):
    with pytest.raises(openai.BadRequestError) as caught:
        served.client.post(
            "/audio/transcriptions",
            cast_to=object,
            body={"model": "tones", **fields},
            files={"file": ("talk.wav", wav(0.5).getvalue())},
            options={"headers": {"Content-Type": "multipart/form-data"}},
        )
    assert caught.value.body["message"].startswith(message)
    assert caught.value.type == "invalid_request_error"
    assert caught.value.param in message


def test_files_that_are_refused(served):
    create = served.client.audio.transcriptions.create
    with pytest.raises(openai.BadRequestError, match="letter.wav: "):
        create(file=("letter.wav", b"Dear friend, " * 99), model="tones")
    with pytest.raises(openai.BadRequestError, match="long.wav lasts 31.0 seconds; the limit is 30 seconds; cut it"):
        create(file=("long.wav", wav(31.0, rate=8000).getvalue()), model="tones")
    with pytest.raises(openai.APIStatusError, match="the file has 2.5 MB; the limit is 2 MB") as caught:
        create(file=("large.wav", bytes(2_500_000)), model="tones")
    assert caught.value.status_code == 413
    with pytest.raises(openai.BadRequestError, match=r"/etc/passwd: "):
        create(file=("/etc/passwd", b"no audio"), model="tones")


def test_forms_that_are_refused(served):
    def post(**content):
        answer = httpx.post(f"{served.server.url}v1/audio/transcriptions", **content)
        return answer.status_code, answer.json()["error"]["message"]

    assert post(json={"file": "talk.wav"}) == (415, "the content type must be multipart/form-data")
    status, said = post(content=b"--x", headers={"Content-Type": "multipart/form-data"})
    assert status == 400 and said.startswith("the form cannot be read (") and said.endswith("; send one file")
    two = [("file", ("a.wav", wav(0.5).getvalue())), ("file", ("b.wav", wav(0.5).getvalue()))]
    assert post(files=two)[0] == 400 and "Too many files" in post(files=two)[1]
    assert post(files={"file": (None, "talk.wav"), "model": (None, "tones")}) == (
        400,
        "file is missing; send a recording",
    )


def test_silence_has_no_text(served):
    found = served.client.audio.transcriptions.create(
        file=file_of(np.zeros(RATE)), model="tones", response_format="verbose_json"
    )
    assert (found.text, found.segments, found.duration) == ("", [], 1.0)
    *deltas, done = list(
        served.client.audio.transcriptions.create(file=file_of(np.zeros(RATE)), model="tones", stream=True)
    )
    assert deltas == [] and done.text == ""


def test_a_fault_within_a_stream_is_an_event(served, spoken, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a secret of the model")

    monkeypatch.setattr(served.models._loaded["tones"].search, "find", fail)
    stream = served.client.audio.transcriptions.create(file=file_of(spoken), model="tones", stream=True)
    with pytest.raises(openai.APIError, match=r"the model failed \(RuntimeError\); see the terminal"):
        list(stream)
    with pytest.raises(openai.InternalServerError, match=r"the model failed \(RuntimeError\)"):
        served.client.audio.transcriptions.create(file=file_of(spoken), model="tones")
