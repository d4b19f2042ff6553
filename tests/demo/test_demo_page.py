"""The page in a headless Chromium, with real uploads to real models; needs the extra `browser` and a Chromium."""

import numpy as np
import pytest
import soundfile
from demo.pages import CHROMIUM, CONTRAST, DONE, launched, opening, serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
pytest.importorskip("playwright.sync_api", reason="playwright, the extra `browser`, is not installed")


@pytest.fixture(scope="module")
def browser(tiny_run):
    with launched(tiny_run.test_dir / "test-01.wav") as chromium:
        yield chromium


@pytest.fixture
def opened(browser):
    with opening(browser) as opened_by:
        yield opened_by


@pytest.fixture(scope="module")
def of_speech(speech):
    with serving(speech) as server:
        yield server


@pytest.fixture(scope="module")
def of_text(translation):
    with serving(translation) as server:
        yield server


def recognise(page, file):
    page.set_input_files("#file", file)
    page.click("#go")
    page.wait_for_selector(DONE)


def test_an_upload_gives_text_words_and_heads(opened, of_speech, tiny_run):
    page, heard = opened(of_speech)
    page.fill("[name=beam_size]", "4")
    page.fill("[name=nbest]", "3")
    page.fill("[name=hotwords]", "dd, ab")
    recognise(page, tiny_run.test_dir / "test-00.wav")
    body, choices = of_speech.service.sent[-1]
    assert choices == {"beam_size": "4", "nbest": "3", "hotwords": "dd, ab", "name": "test-00.wav"}
    assert body == (tiny_run.test_dir / "test-00.wav").read_bytes()
    expected = of_speech.service.run(body, choices)
    assert page.inner_text("#error") == "" and page.inner_text("#written") == expected["text"]
    assert page.evaluate("document.activeElement.id") == "result"
    best, words = page.locator("#details table").all()
    assert best.locator("tbody tr").count() == 3 and best.locator("tbody td").nth(1).inner_text() == expected["text"]
    assert words.locator("tbody tr").count() == len(expected["segments"][0]["words"]) > 0

    page.click("#show")
    page.wait_for_selector("#maps canvas >> nth=1")
    names = "[...document.querySelectorAll('#maps canvas')].map(canvas => canvas.getAttribute('aria-label'))"
    assert page.evaluate(names)[0] == "attention of head 1, decoder cross-attention, layer 1"
    page.select_option("[name=attention]", "encoder")
    page.wait_for_selector("#maps canvas[aria-label*='encoder self-attention']")
    page.select_option("[name=head]", "2")
    page.wait_for_selector("#maps canvas[aria-label*='of head 1,']", state="detached")  # all heads have head 2 too
    assert page.evaluate(names) and all("of head 2, encoder self-attention" in name for name in page.evaluate(names))
    assert heard.said == []
    asked = [request.url for request in heard.asked if not request.url.startswith(("data:", "blob:"))]
    assert all(url.startswith(of_speech.url) for url in asked)


def test_errors_are_one_line_and_the_page_continues(opened, of_speech, tiny_run, tmp_path):
    page, _ = opened(of_speech)
    page.click("#go")
    assert page.inner_text("#error") == "Choose an audio file or make a recording first."
    (tmp_path / "letter.wav").write_text("Dear friend, " * 99)
    recognise(page, tmp_path / "letter.wav")
    said = page.inner_text("#error")
    assert said.startswith("letter.wav: ") and "\n" not in said and page.is_hidden("#result")
    soundfile.write(tmp_path / "long.wav", np.zeros(8000 * 3), 8000)
    recognise(page, tmp_path / "long.wav")
    assert page.inner_text("#error").startswith("long.wav lasts 3.0 seconds; the limit is 2 seconds")
    sent = len(of_speech.service.sent)
    (tmp_path / "large.wav").write_bytes(bytes(600_000))
    recognise(page, tmp_path / "large.wav")
    assert page.inner_text("#error") == "The file has 0.6 MB; the limit is 0.5 MB."
    assert len(of_speech.service.sent) == sent
    page.fill("[name=nbest]", "11")
    recognise(page, tiny_run.test_dir / "test-00.wav")
    assert page.inner_text("#error") == "nbest 11 is greater than beam_size 10; increase beam_size"
    page.fill("[name=nbest]", "1")
    recognise(page, tiny_run.test_dir / "test-00.wav")
    assert page.inner_text("#error") == "" and page.is_visible("#result")


def test_a_microphone_is_recorded(opened, of_speech):
    page, heard = opened(of_speech)
    page.click("#record")
    page.wait_for_selector("#record[aria-pressed=true]")
    page.wait_for_timeout(700)
    page.click("#record")
    page.wait_for_selector("#player:not([hidden])")
    page.click("#go")
    page.wait_for_selector("#result:not([hidden])")
    assert page.inner_text("#error") == "" and page.is_visible("#result") and heard.said == []
    sent, _ = of_speech.service.sent[-1]
    assert sent[:4] == b"RIFF" and int.from_bytes(sent[24:28], "little") == 16_000 and sent[22] == 1
    assert np.abs(np.frombuffer(sent[44:], np.int16)).max() > 1000


def test_a_format_that_only_the_browser_may_know_is_sent_as_wav(opened, of_speech, tiny_run, tmp_path):
    samples, _ = soundfile.read(tiny_run.test_dir / "test-00.wav", dtype="float32")
    stereo = np.stack([samples, np.zeros_like(samples)], 1)
    soundfile.write(tmp_path / "clip.flac", stereo, 16_000)
    (tmp_path / "clip.flac").rename(tmp_path / "clip.m4a")
    page, _ = opened(of_speech)
    recognise(page, tmp_path / "clip.m4a")
    sent = np.frombuffer(of_speech.service.sent[-1][0][44:], np.int16) / 32768
    np.testing.assert_allclose(sent, samples / 2, atol=2e-4)
    assert page.inner_text("#error") == ""


def test_text_is_translated(opened, of_text):
    page, heard = opened(of_text)
    assert page.is_hidden("#speech") and page.inner_text("#go") == "Translate"
    page.click("#go")
    assert page.inner_text("#error") == "Enter a text first."
    page.fill("#text", "abc\ndcba")
    page.click("#go")
    page.wait_for_selector("#result:not([hidden])")
    expected = of_text.service.run(b"abc\ndcba", {})
    assert page.inner_text("#written") == expected["text"]
    assert [title.inner_text() for title in page.locator("#details h3").all()] == ["Line 1: abc", "Line 2: dcba"]
    page.select_option("[name=segment]", "1")
    page.click("#show")
    page.wait_for_selector("#maps canvas")
    assert heard.said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_in_light_and_dark_and_fits_a_narrow_screen(opened, of_speech, tiny_run, tmp_path, scheme):
    page, _ = opened(of_speech, color_scheme=scheme, viewport={"width": 400, "height": 700})
    assert (page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")) == (scheme == "dark")
    recognise(page, tiny_run.test_dir / "test-00.wav")
    page.click("#show")
    page.wait_for_selector("#maps canvas")
    ratios = page.evaluate(
        CONTRAST,
        "h1, h2, p, dt, dd, label, legend, button, input, select, td, th, figcaption, summary, ins, del, .word",
    )
    assert len(ratios) > 20 and min(ratios) > 4.5
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    (tmp_path / "letter.wav").write_text("x" * 999)
    recognise(page, tmp_path / "letter.wav")
    assert min(page.evaluate(CONTRAST, "#error")) > 4.5


def test_everything_has_a_name_and_can_be_reached_by_keyboard(opened, of_speech, tiny_run):
    page, _ = opened(of_speech)
    page.set_input_files("#file", tiny_run.test_dir / "test-00.wav")
    page.focus("[name=hotwords]")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "go"
    page.keyboard.press("Enter")
    page.wait_for_selector("#result:not([hidden])")
    page.focus("#show")
    page.keyboard.press("Enter")
    page.wait_for_selector("#maps canvas")
    controls = "[...document.querySelectorAll('input, select, textarea')]"
    assert page.evaluate(f"{controls}.filter(one => !one.labels.length).length") == 0
    assert page.evaluate("[...document.querySelectorAll('button')].filter(one => !one.innerText.trim()).length") == 0
    assert page.evaluate("[...document.querySelectorAll('canvas')].filter(one => !one.ariaLabel).length") == 0
    assert all(page.evaluate("[document.documentElement.lang, document.title, document.querySelector('h1').innerText]"))
    assert page.evaluate("[...document.querySelectorAll('[tabindex]')].every(one => one.tabIndex <= 0)")
