"""The microphone of a headless Chromium, transcribed while it records; needs the extra `browser` and a Chromium."""

import numpy as np
import pytest
import soundfile
from demo.pages import CHROMIUM, DONE, launched, opening, serving
from references.streaming import RATE, tones

from espnet_diverse.audio.resampling import resample
from espnet_diverse.data.scripts import join_texts
from espnet_diverse.inference import StreamRecognizer
from espnet_diverse.serve.limits import Limits
from espnet_diverse.transcription.segmentation_options import SegmentationOptions

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
pytest.importorskip("playwright.sync_api", reason="playwright, the extra `browser`, is not installed")
ENERGY = SegmentationOptions("energy")


@pytest.fixture(scope="module")
def server(streaming_run):
    from espnet_diverse.demo.task_services import load_service

    with serving(load_service(streaming_run, None, Limits(seconds=30.0, streams=1), ENERGY)) as running:
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    pause = np.zeros(12_000, np.float32)
    spoken = tmp_path_factory.mktemp("microphone") / "spoken.wav"
    soundfile.write(spoken, np.concatenate([tones(1.0, 1), pause, tones(0.8, 2), pause]), RATE)
    with launched(spoken) as chromium:
        yield chromium


@pytest.fixture
def opened(browser):
    with opening(browser) as opened_by:
        yield opened_by


def record(page):
    page.click("#record")
    page.wait_for_selector("#record[aria-pressed=true]")


def stop(page):
    page.click("#record")
    page.wait_for_selector("#record:not([aria-pressed]):not([disabled])")


def recognised(model, pcm, rate):
    """Text of the stream recogniser for 16-bit samples of a rate."""
    stream = StreamRecognizer(model, segmentation=ENERGY).stream([resample(pcm / np.float32(2**15), rate)])
    return join_texts(result.text for result in stream if result.is_final)


def test_live_text_appears_while_recording_and_matches_the_stream(opened, server, streaming_run):
    page, console = opened(server)
    record(page)
    page.wait_for_selector("#saying:not(:empty)")  # a partial text
    assert page.is_visible("#live") and page.get_attribute("#record", "aria-pressed") == "true"
    page.wait_for_selector("#said:not(:empty)")  # the text of an utterance that has ended
    stop(page)
    (socket,) = console.sockets
    *parts, end = socket.sent
    assert end == "end" and len(parts) > 2
    pcm, rate = np.frombuffer(b"".join(parts), "<i2"), int(socket.url.partition("rate=")[2])
    assert page.inner_text("#said") == recognised(streaming_run, pcm, rate) and page.inner_text("#saying") == ""
    assert np.abs(pcm).max() > 1000

    page.click("#go")  # the recording gives results that a stream does not
    page.wait_for_selector(DONE)
    (body, choices) = server.service.sent[-1]
    assert choices["name"] == "recording.wav" and len(body) == pytest.approx(2 * len(pcm) * RATE / rate, rel=0.01)
    assert page.inner_text("#error") == "" and page.is_visible("#result") and console.said == []
    assert page.locator("#details table").count() >= 1


def test_a_recording_ends_at_the_limit(opened, server, monkeypatch):
    monkeypatch.setattr(server.service.service, "limits", Limits(seconds=2.0))
    page, console = opened(server)
    record(page)
    page.wait_for_selector("#record:not([aria-pressed])", timeout=20_000)
    assert page.inner_text("#error") == "" and page.inner_text("#said") and console.said == []
    page.click("#go")
    page.wait_for_selector(DONE)
    assert page.inner_text("#error") == "" and page.is_visible("#result")


def test_a_double_click_begins_one_recording(opened, server):
    page, console = opened(server)
    page.evaluate("() => { const button = document.getElementById('record'); button.click(); button.click(); }")
    page.wait_for_selector("#record[aria-pressed=true]:not([disabled])")
    page.wait_for_selector("#saying:not(:empty)")
    stop(page)
    assert len(console.sockets) == 1
    assert page.inner_text("#error") == "" and console.said == []


def test_a_second_recording_is_kept_but_not_transcribed_live(opened, server):
    first, _ = opened(server)
    second, _ = opened(server)
    record(first)
    record(second)
    second.wait_for_selector("#error:not(:empty)")
    assert second.is_hidden("#live")
    said = "another recording is being transcribed; try again when it has ended. The recording is kept."
    assert second.inner_text("#error") == said
    stop(first)
    second.click("#record")
    second.wait_for_selector("#player:not([hidden])")
    second.click("#go")
    second.wait_for_selector(DONE)
    assert second.inner_text("#error") == "" and second.is_visible("#result")


def test_the_microphone_is_off_after_a_recording_that_cannot_begin(opened, server):
    page, _ = opened(server)
    page.evaluate(
        """() => {
          const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
          navigator.mediaDevices.getUserMedia = async (wanted) => window.microphone = await ask(wanted);
          const Context = window.AudioContext;
          window.contexts = [];
          window.AudioContext = class extends Context { constructor() { super(); contexts.push(this); } };
          AudioWorklet.prototype.addModule = async () => { throw new Error("gone"); };  // as where the server has ended
        }"""
    )
    page.click("#record")
    page.wait_for_selector("#error:not(:empty)")
    assert page.inner_text("#error") == "Recording failed: gone" and page.inner_text("#record") == "Record"
    assert page.evaluate("microphone.getTracks().map(track => track.readyState)") == ["ended"]
    page.wait_for_function("contexts.length == 2 && contexts.every(context => context.state === 'closed')")


def test_live_text_fits_the_screen_of_a_phone(opened, server):
    page, _ = opened(server, viewport={"width": 390, "height": 700})
    record(page)
    page.wait_for_selector("#said:not(:empty) + #saying:not(:empty)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = page.locator("#saying").bounding_box()
    assert 0 < box["y"] < 700 - box["height"]  # without scrolling
    stop(page)
