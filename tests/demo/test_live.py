"""Recordings that are transcribed while somebody speaks: what is heard, order and loss of parts, limits, time-outs."""

import threading
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import numpy as np
import pytest
import soundfile
from demo.test_server import BODY, ask
from references.language_models import write_lm
from references.streaming import RATE, TOKENS, tones, write_run

from espnet_diverse.audio.resampling import resample
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.decoding.search.fusion import Fusion
from espnet_diverse.decoding.search.ngram import NgramScorer
from espnet_diverse.decoding.streaming.block_search import load_block_search
from espnet_diverse.demo.limits import Limits
from espnet_diverse.demo.live import LiveRecognition, live_recognition
from espnet_diverse.demo.server import Server
from espnet_diverse.demo.task_services import load_service
from espnet_diverse.demo.uploads import RefusedError
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.transcription.cjk import join_texts
from espnet_diverse.transcription.segmentation_options import SegmentationOptions
from espnet_diverse.transcription.streaming import transcribe_stream

ENERGY = SegmentationOptions("energy")
PAUSE = np.zeros(12_000, np.float32)
SPOKEN = np.concatenate([PAUSE, tones(1.0, 1), PAUSE, tones(0.8, 2), PAUSE[:4000]])
PCM = (SPOKEN * 2**15).astype("<i2")
PART = 4000  # samples


@pytest.fixture(scope="module")
def search(streaming_run):
    return load_block_search(streaming_run)


@pytest.fixture(scope="module")
def predictor(streaming_run):
    return load_predictor(streaming_run)


@pytest.fixture
def live(search):
    live = LiveRecognition(search, ENERGY, Limits(seconds=5.0), idle_seconds=60.0)
    yield live
    if (left := live._recording) is not None and not left.has_ended:  # the next test has the same search
        left.hear(np.zeros(0, "<i2"), last=True)


def parts(pcm, size=PART):
    return [pcm[at : at + size].tobytes() for at in range(0, len(pcm), size)]


def say(live, name, number, body=b"", last=""):
    return live.hear(body, {"id": name, "part": str(number), "last": last})


def answers(live, pcm, **choices):
    """Answers to all parts of a recording; the last one ends it."""
    name, bodies = live.begin(choices)["id"], parts(pcm)
    return [say(live, name, i, body, "1" if i == len(bodies) - 1 else "") for i, body in enumerate(bodies)]


def expected(search, samples):
    """Final texts of the stream recogniser on the same samples."""
    return join_texts(each.text for each in transcribe_stream(search, [samples], ENERGY) if each.is_final)


def test_the_text_is_that_of_the_stream_recogniser_and_comes_while_somebody_speaks(live, search):
    told = answers(live, PCM)
    assert told[-1] == {"text": expected(search, PCM / np.float32(2**15)), "partial": "", "heard": len(PCM) / RATE}
    assert len(told[-1]["text"]) > 3
    partials = [each["partial"] for each in told]
    assert sum(map(bool, partials)) > 3 and partials.index(next(filter(None, partials))) < len(told) // 2
    after = next(each for each in told if each["text"])
    assert after is not told[-1] and told[-1]["text"].startswith(after["text"])
    spaced = next(each["partial"] for each in told if each["text"] and each["partial"])
    assert spaced[0] == " "
    assert [each["heard"] for each in told[:2]] == [PART / RATE, 2 * PART / RATE]


def test_samples_of_another_rate_are_resampled(live, search):
    samples = resample(SPOKEN, RATE, target_rate=48_000)
    pcm = (samples * 2**15).astype("<i2")
    heard = resample(pcm / np.float32(2**15), 48_000)
    assert answers(live, pcm, rate="48000")[-1]["text"] == expected(search, heard) != ""


def test_a_recording_of_silence_or_of_nothing_has_no_text(live):
    assert answers(live, np.zeros(PART, "<i2"))[-1]["text"] == ""
    name = live.begin({})["id"]
    assert say(live, name, 0, last="1") == {"text": "", "partial": "", "heard": 0.0}


def test_a_part_that_is_sent_again_is_heard_once(live):
    once = answers(live, PCM)
    name, bodies = live.begin({})["id"], parts(PCM)
    for number, body in enumerate(bodies):
        last = "1" if number == len(bodies) - 1 else ""
        assert say(live, name, number, body, last) == say(live, name, number, body, last) == once[number]


def refused(status, live, *arguments):
    with pytest.raises(RefusedError) as caught:
        say(live, *arguments)
    assert caught.value.refusal.status == status
    return caught.value.refusal.message


def test_a_lost_part_is_refused_and_nothing_is_heard(live):
    name, (first, second, third, *_) = live.begin({})["id"], parts(PCM)
    say(live, name, 0, first)
    expect = "part 2 came where part 1 is expected; record again"
    assert refused(HTTPStatus.CONFLICT, live, name, 2, third) == expect
    assert "part 0 came where part 2 is" in (say(live, name, 1, second), refused(409, live, name, 0, first))[1]
    assert say(live, name, 2, third)["heard"] == 3 * PART / RATE
    assert "part -1 came" in refused(HTTPStatus.CONFLICT, live, name, -1)


def test_a_recording_that_ended_or_never_began_is_refused(live):
    gone = "the recording has ended, because nothing was sent for a while; record again"
    assert refused(HTTPStatus.GONE, live, "unknown", 0) == gone
    name = live.begin({})["id"]
    say(live, name, 0, last="1")
    assert refused(HTTPStatus.GONE, live, name, 1) == gone
    live.begin({})
    assert refused(HTTPStatus.GONE, live, name, 0) == gone


def test_there_is_one_recording_at_a_time(live):
    name = live.begin({})["id"]
    with pytest.raises(RefusedError, match="another recording is being transcribed; try again when it has ended"):
        live.begin({})
    say(live, name, 0, last="1")
    assert live.begin({})["id"] != name


def recognising():
    return [each for each in threading.enumerate() if each.name.endswith("(_recognise)")]


def test_a_recording_that_sends_nothing_ends(search):
    live = LiveRecognition(search, ENERGY, Limits(), idle_seconds=0.05)
    name = live.begin({})["id"]
    for thread in recognising():
        thread.join(20)
    assert not recognising()
    assert "nothing was sent for a while" in refused(HTTPStatus.GONE, live, name, 0, b"", "1")
    assert live.begin({})["id"] != name


def test_a_part_that_comes_when_the_recording_ends_is_answered(search):
    """The time-out is that of the parts, so that either may come first."""
    live = LiveRecognition(search, ENERGY, Limits(), idle_seconds=0.002)
    with ThreadPoolExecutor(1) as pool:
        for _ in range(50):
            name = live.begin({})["id"]
            try:
                assert pool.submit(say, live, name, 0, bytes(320), "1").result(20)["heard"] == 0.01
            except RefusedError as error:
                assert error.refusal.status == HTTPStatus.GONE


@pytest.mark.parametrize(
    ("choices", "body", "message"),
    [
        ({}, bytes(2), "part is missing; number the parts from 0"),
        ({"part": "one"}, bytes(2), "part must be a whole number, but is 'one'"),
        ({"part": "0"}, bytes(3), "3 bytes are an odd number; samples must have 16 bits, little-endian, mono"),
        ({"part": "0"}, bytes(160_002), "the recording is longer than the limit of 5 seconds; stop before, or start"),
    ],
    ids=str,
)
def test_parts_that_cannot_be_heard_are_refused(live, choices, body, message):
    name = live.begin({"rate": "16000"})["id"]
    with pytest.raises((ConfigError, DataError), match=f"^{message}"):
        live.hear(body, {"id": name, **choices})
    assert say(live, name, 0, bytes(160_000), "1")["heard"] == 5.0


@pytest.mark.parametrize("rate", ["999", "-1", "1000000"])
def test_rates_that_audio_cannot_have_are_refused(live, rate):
    with pytest.raises(ConfigError, match=f"rate {rate} is not allowed; give 1000 to 768000 Hz"):
        live.begin({"rate": rate})


def test_a_fault_of_the_model_reaches_the_request_and_ends_the_recording(live, search, monkeypatch):
    def fail(*_):
        raise RuntimeError("of the model")

    name = live.begin({})["id"]
    with monkeypatch.context() as patch:
        patch.setattr(search, "add", fail)
        with pytest.raises(RuntimeError, match="of the model"):
            for number, body in enumerate(parts(PCM)):
                say(live, name, number, body)
    assert refused(HTTPStatus.GONE, live, name, number + 1)
    assert answers(live, PCM)[-1]["text"]


def test_the_language_of_a_recording_is_given_when_it_begins(tmp_path):
    folder = write_run(tmp_path / "model", "diverse_contextual_block_transformer", languages=["de", "el"])
    live = load_service(folder, None, Limits(), ENERGY).live
    live.search.options = replace(live.search.options, ctc_weight=0.1)  # or CTC, which knows no language, decides
    said = "the language cannot be identified while somebody speaks; choose one before you record: de el"
    with pytest.raises(DataError, match=said):
        live.begin({})
    texts = [answers(live, PCM, language=language)[-1]["text"] for language in ("de", "el")]
    assert texts[0] != texts[1]


@pytest.mark.parametrize(
    "how",
    [
        {"precision": "int8"},
        {"compiled": True},
        {"hotwords": Path("a")},
        {"language_model": NgramScorer.__new__(NgramScorer)},
    ],
    ids=lambda how: next(iter(how)),
)
def test_what_streaming_cannot_do_keeps_whole_recordings(predictor, streaming_run, how):
    config_file = streaming_run / "config.yaml"
    assert isinstance(live_recognition(predictor, config_file, Limits(), ENERGY), LiveRecognition)
    other = copy(predictor)
    vars(other).update(how)
    assert live_recognition(other, config_file, Limits(), ENERGY) is None


def test_models_that_do_not_stream_keep_whole_recordings(speech):
    assert speech.live is None and speech.about()["live"] is False
    with pytest.raises(ConfigError, match="this model does not transcribe while somebody speaks; send the whole"):
        speech.begin(b"", {})


def test_one_model_serves_recordings_and_the_microphone_at_the_same_time(streaming_run, search, tmp_path):
    lm = write_lm(tmp_path / "lm", TOKENS)
    service = load_service(streaming_run, None, Limits(), ENERGY, fusion=Fusion(lm))
    scorers = service.live.search.speech2text.beam_search.scorers
    assert service.live.search.speech2text.asr_model is service.search.encoding.model
    assert (
        scorers["lm"] is service.search.language_model and scorers["decoder"] is service.search.encoding.model.decoder
    )

    service = load_service(streaming_run, None, Limits(), ENERGY)
    soundfile.write(tmp_path / "spoken.wav", SPOKEN, RATE)
    body = (tmp_path / "spoken.wav").read_bytes()
    alone = service.run(body, {})["text"], answers(service.live, PCM)
    with ThreadPoolExecutor(1) as pool:
        begun = [pool.submit(service.run, body, {}) for _ in range(4)]
        assert answers(service.live, PCM) == alone[1]
        assert {each.result()["text"] for each in begun} == {alone[0]} != {""}
    assert alone[1][-1]["text"] == expected(search, PCM / np.float32(2**15))


def test_the_server_has_a_status_and_a_sentence_for_refusals(live, speech):
    class Service:
        """A service that is live."""

        begin = staticmethod(lambda _, choices: live.begin(choices))
        hear = staticmethod(live.hear)

    with Server(0, Limits()) as server:
        server.service = Service()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            status, _, told = ask(server, "POST", "/live/begin?rate=16000", b"", Content_Type=BODY)
            assert status == 200
            assert ask(server, "POST", "/live/begin", b"")[0] == HTTPStatus.SERVICE_UNAVAILABLE
            path = f"/live/part?id={told['id']}"
            assert ask(server, "POST", f"{path}&part=3", b"")[::2] == (
                409,
                {"error": "part 3 came where part 0 is expected; record again"},
            )
            assert ask(server, "POST", f"{path}&part=0&last=1", PCM[:1600].tobytes())[2]["heard"] == 0.1
            assert ask(server, "POST", f"{path}&part=1", b"")[0] == HTTPStatus.GONE
        finally:
            server.shutdown()
            thread.join()
