"""Recordings that are transcribed while somebody speaks, by a websocket client: texts, limits, faults, time-outs."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from urllib.parse import urlencode

import numpy as np
import pytest
import soundfile
from references.language_models import write_lm
from references.streaming import RATE, TOKENS, tones, write_run
from serve.running import running
from starlette.routing import WebSocketRoute
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from espnet_diverse.audio.resampling import resample
from espnet_diverse.data.scripts import join_texts
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.decoding.search.fusion import Fusion
from espnet_diverse.decoding.search.ngram import NgramScorer
from espnet_diverse.decoding.streaming.block_search import load_block_search
from espnet_diverse.demo.routes import page
from espnet_diverse.demo.task_services import load_service
from espnet_diverse.serve import application as application_module
from espnet_diverse.serve.application import application
from espnet_diverse.serve.limits import Limits
from espnet_diverse.serve.live import END, LiveRecognition, live_recognition
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.streaming import transcribe_stream

ENERGY = SegmentationOptions("energy")
PAUSE = np.zeros(12_000, np.float32)
SPOKEN = np.concatenate([PAUSE, tones(1.0, 1), PAUSE, tones(0.8, 2), PAUSE[:4000]])
PCM = (SPOKEN * 2**15).astype("<i2")
PART = 4000  # samples
LIMITS = Limits(stream_seconds=5.0, streams=2)


@pytest.fixture(scope="module")
def search(streaming_run):
    return load_block_search(streaming_run)


@pytest.fixture(scope="module")
def predictor(streaming_run):
    return load_predictor(streaming_run)


@contextmanager
def serving(live):
    """The server of a live recognition alone."""

    async def listen(websocket):
        await websocket.accept()
        await live.serve(websocket, websocket.query_params)

    with running(application([WebSocketRoute("/live", listen)])) as server:
        server.live = live
        yield server


@pytest.fixture(scope="module")
def server(predictor, streaming_run):
    with serving(live_recognition(predictor, streaming_run / "config.yaml", LIMITS, ENERGY)) as started:
        yield started


def opened(server, **choices):
    return connect(f"ws://127.0.0.1:{server.port}/live?{urlencode(choices)}", open_timeout=30)


def parts(pcm, size=PART):
    return [pcm[at : at + size].tobytes() for at in range(0, len(pcm), size)]


def rest(socket):
    """The messages until the server closes the websocket."""
    told = []
    try:
        while True:
            told.append(json.loads(socket.recv(60)))
    except ConnectionClosed:
        return told


def send(socket, *messages):
    with suppress(ConnectionClosed):  # which a refusal does
        for message in messages:
            socket.send(message)


def said(server, pcm, size=PART, **choices):
    """Messages to a client that sends a recording and ends it."""
    with opened(server, **choices) as socket:
        send(socket, *parts(pcm, size), END)
        return rest(socket)


def whole(told):
    """The text of the utterances that have ended."""
    return "".join(one["space"] + one["text"] for one in told if one["type"] == "final")


def expected(search, samples):
    """Final texts of the stream recogniser on the same samples."""
    return join_texts(each.text for each in transcribe_stream(search, [samples], ENERGY) if each.is_final)


def wait_for_none(live):
    end = time.monotonic() + 20
    while live._count:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_text_matches_the_stream_recogniser_and_comes_while_somebody_speaks(server, search):
    told = said(server, PCM)
    assert told[-1] == {"type": "end", "heard": len(PCM) / RATE}
    assert whole(told) == expected(search, PCM / np.float32(2**15)) and len(whole(told)) > 3
    texts = told[:-1]
    assert {one["type"] for one in texts} == {"partial", "final"} and texts[-1]["type"] == "final"
    assert [one["heard"] for one in texts] == sorted(one["heard"] for one in texts)
    assert texts[0]["heard"] < len(PCM) / RATE / 2 and all(one["start"] < one["end"] for one in texts)
    first, *_, last = (one["space"] for one in texts)
    assert (first, last) == ("", " ")


@pytest.mark.parametrize("size", [100, len(PCM)])
def test_parts_may_have_any_length(server, search, size):
    assert whole(said(server, PCM, size)) == expected(search, PCM / np.float32(2**15))


def test_samples_of_another_rate_are_resampled(server, search):
    samples = resample(SPOKEN, RATE, target_rate=48_000)
    pcm = (samples * 2**15).astype("<i2")
    heard = resample(pcm / np.float32(2**15), 48_000)
    assert whole(said(server, pcm, rate="48000")) == expected(search, heard) != ""


def test_a_recording_of_silence_or_of_nothing_has_no_text(server):
    assert said(server, np.zeros(PART, "<i2")) == [{"type": "end", "heard": PART / RATE}]
    assert said(server, np.zeros(0, "<i2")) == [{"type": "end", "heard": 0.0}]


def test_streams_run_at_once_and_no_more_than_are_allowed(server, search):
    text = expected(search, PCM / np.float32(2**15))
    with ThreadPoolExecutor(2) as pool:
        assert {whole(told) for told in pool.map(lambda _: said(server, PCM), range(4))} == {text}
    assert len(server.live._idle) == 2
    with opened(server) as one, opened(server) as two:
        for socket in (one, two):
            socket.send(PCM.tobytes())
            socket.recv(60)
        (refused,) = said(server, PCM[:0])
        assert refused["type"] == "error"
        assert refused["error"]["message"] == "another recording is being transcribed; try again when it has ended"
        assert refused["error"]["code"] == "rate_limit_exceeded"
    wait_for_none(server.live)
    assert whole(said(server, PCM)) == text


def test_a_client_that_goes_leaves_its_place(server, search):
    for _ in range(3):
        socket = opened(server)
        socket.send(PCM.tobytes())
        socket.close()
        wait_for_none(server.live)
    assert whole(said(server, PCM)) == expected(search, PCM / np.float32(2**15))


def test_a_recording_that_sends_nothing_ends(search):
    with serving(LiveRecognition(lambda: search, ENERGY, replace(LIMITS, idle_seconds=1.0))) as server:
        with opened(server) as socket:
            socket.send(PCM.tobytes())
            *texts, error = rest(socket)
        assert whole(texts) == expected(search, PCM / np.float32(2**15))
        told = "the recording has ended, because nothing was sent for a while; record again"
        assert error["error"]["message"] == told
        wait_for_none(server.live)


def test_messages_without_samples_keep_no_place(search):
    with serving(LiveRecognition(lambda: search, ENERGY, replace(LIMITS, idle_seconds=0.5))) as server:
        with opened(server) as socket:
            socket.send(PCM.tobytes())
            began = time.monotonic()
            with pytest.raises(ConnectionClosed):
                while time.monotonic() - began < 30:
                    socket.send(b"")
                    time.sleep(0.1)
        wait_for_none(server.live)


def test_a_recording_lasts_by_the_clock(search):
    """A few samples every now and then, as of a client that wants to keep its place."""
    with serving(LiveRecognition(lambda: search, ENERGY, replace(LIMITS, stream_seconds=1.0))) as server:
        with opened(server) as socket:
            began = time.monotonic()
            with pytest.raises(ConnectionClosed):
                while time.monotonic() - began < 30:
                    socket.send(bytes(2))
                    time.sleep(0.1)
        wait_for_none(server.live)


@pytest.mark.parametrize(
    ("choices", "sent", "message"),
    [
        ({}, bytes(160_002), "the recording is longer than the limit of 5 seconds; stop before, or see --max_stream"),
        ({}, "stop", "a message of text must be end, but is 'stop'"),
        ({"rate": "999"}, b"", "rate must be a whole number of Hz, 1000 to 768000, but is '999'"),
        ({"rate": "-1"}, b"", "rate must be a whole number of Hz, 1000 to 768000, but is '-1'"),
        ({"rate": "1000000"}, b"", "rate must be a whole number of Hz, 1000 to 768000, but is '1000000'"),
        ({"rate": "000016000" + "9" * 5000}, b"", "rate must be a whole number of Hz, 1000 to 768000, but is '000016"),
        ({"rate": "000016000999"}, b"", "rate must be a whole number of Hz, 1000 to 768000, but is '000016000999'"),
        ({"rate": "nan"}, b"", "rate must be a whole number of Hz, 1000 to 768000, but is 'nan'"),
    ],
    ids=str,
)
def test_invalid_samples_messages_and_rates_are_refused(server, choices, sent, message):
    with opened(server, **choices) as socket:
        send(socket, sent)
        (told,) = rest(socket)
        assert told["error"]["message"].startswith(message) and told["error"]["type"] == "invalid_request_error"
        assert socket.close_code == 1008
        assert told["error"]["message"].startswith(socket.close_reason) and socket.close_reason
    wait_for_none(server.live)


def test_samples_may_be_cut_in_two_but_not_at_the_end(server, search):
    pcm = PCM.astype("<i2").tobytes()
    with opened(server) as socket:
        send(socket, *(pcm[at : at + 8191] for at in range(0, len(pcm), 8191)), END)
        told = rest(socket)
    assert told[-1] == {"type": "end", "heard": len(PCM) / RATE}
    assert whole(told) == expected(search, PCM / np.float32(2**15))
    with opened(server) as socket:
        send(socket, bytes(3), END)
        assert "the last sample has one byte" in rest(socket)[-1]["error"]["message"]


def test_messages_are_bounded(server):
    with opened(server) as socket:
        socket.send(bytes(2_000_000))
        assert rest(socket) == [] and socket.close_code == 1009


def test_text_that_is_not_utf_8_closes_the_websocket_and_writes_no_traceback(server, caplog):
    with opened(server) as socket:
        socket.send(b"\xff\xfe", text=True)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(60)
    assert closed.value.rcvd.code == 1007 and "Traceback" not in caplog.text
    wait_for_none(server.live)


def test_a_busy_server_keeps_recordings_whose_pongs_it_reads_late(streaming_run, search, monkeypatch):
    """Reading pauses while samples wait for the model, and pongs with it, for longer than uvicorn's deadline."""
    soon, slow = {"ws_ping_interval": 0.1, "ws_ping_timeout": 0.2}, load_block_search(streaming_run)
    monkeypatch.setattr(application_module.uvicorn, "Config", partial(application_module.uvicorn.Config, **soon))
    add = slow.add
    slow.add = lambda *given: [time.sleep(0.5), add(*given)][1]
    with serving(LiveRecognition(lambda: slow, ENERGY, replace(LIMITS, stream_seconds=60.0))) as server:
        assert whole(said(server, PCM)) == expected(search, PCM / np.float32(2**15))


def test_a_fault_of_the_model_ends_the_recording_and_nothing_else(predictor, streaming_run, caplog):
    live = live_recognition(predictor, streaming_run / "config.yaml", LIMITS, ENERGY)

    def fail(*_):
        raise RuntimeError("a secret of the model")

    with serving(live) as server:
        (search,) = live._idle
        search.add = fail
        told = said(server, PCM)[-1]["error"]
        assert (told["type"], told["message"].partition(";")[0]) == ("server_error", "the model failed (RuntimeError)")
        del search.add
        assert whole(said(server, PCM))
    assert "a secret of the model" in caplog.text


def test_other_origins_are_refused(server):
    with pytest.raises(InvalidStatus) as caught:
        connect(f"ws://127.0.0.1:{server.port}/live", origin="http://evil.example")
    assert caught.value.response.status_code == 403


def test_the_language_of_a_recording_is_given_when_it_begins(tmp_path):
    folder = write_run(tmp_path / "model", "diverse_contextual_block_transformer", languages=["de", "el"])
    live = load_service(folder, None, Limits(), ENERGY).live
    (search,) = live._idle
    search.options = replace(search.options, ctc_weight=0.1)  # or CTC, which knows no language, decides
    with serving(live) as server:
        (refused,) = said(server, PCM)
        unknown = "the language cannot be identified in a stream; choose one before you record: de el"
        assert refused["error"]["message"] == unknown
        texts = [whole(said(server, PCM, language=language)) for language in ("de", "el")]
    assert texts[0] != texts[1]


@pytest.mark.parametrize(
    "how",
    [
        {"precision": "int8"},
        {"compiled": True},
        {"language_model": NgramScorer.__new__(NgramScorer)},
    ],
    ids=lambda how: next(iter(how)),
)
def test_unsupported_options_disable_live_recognition(predictor, streaming_run, how):
    config_file = streaming_run / "config.yaml"
    assert isinstance(live_recognition(predictor, config_file, Limits(), ENERGY), LiveRecognition)
    other = copy(predictor)
    vars(other).update(how)
    assert live_recognition(other, config_file, Limits(), ENERGY) is None


def test_models_that_do_not_stream_keep_whole_recordings(tiny_run):
    service = load_service(tiny_run.model_dir, None, LIMITS, ENERGY)
    assert service.live is None and service.about()["live"] is False
    with running(page(service)) as server:
        (told,) = said(server, PCM)
    said_so = "this model does not stream; send the whole recording"
    assert told["error"]["message"] == said_so


def test_one_model_serves_recordings_and_the_microphone_at_the_same_time(streaming_run, search, tmp_path):
    lm = write_lm(tmp_path / "lm", TOKENS)
    service = load_service(streaming_run, None, Limits(), ENERGY, fusion=Fusion(lm))
    (live,) = service.live._idle
    scorers = live.speech2text.beam_search.scorers
    assert live.speech2text.asr_model is service.search.encoding.model
    assert (
        scorers["lm"] is service.search.language_model and scorers["decoder"] is service.search.encoding.model.decoder
    )

    service = load_service(streaming_run, None, Limits(), ENERGY)
    soundfile.write(tmp_path / "spoken.wav", SPOKEN, RATE)
    body = (tmp_path / "spoken.wav").read_bytes()
    alone = service.run(body, {})["text"]
    with serving(service.live) as server, ThreadPoolExecutor(1) as pool:
        begun = [pool.submit(service.run, body, {}) for _ in range(4)]
        assert whole(said(server, PCM)) == expected(search, PCM / np.float32(2**15))
        assert {each.result()["text"] for each in begun} == {alone} != {""}
