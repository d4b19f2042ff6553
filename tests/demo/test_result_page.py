"""The page of a result, on a screen and on a phone; needs the extra `browser` and a Chromium."""

import time

import numpy as np
import pytest
import soundfile
from demo.pages import CHROMIUM, CONTRAST, launched, opening, serving
from demo.stand_in import FACTS, TEXTS, TRANSCRIPT, Shown

from espnet_diverse.demo.examples import Example

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
pytest.importorskip("playwright.sync_api", reason="playwright, the extra `browser`, is not installed")
WIDTHS = pytest.mark.parametrize("width", [390, 1280])
COUNT = """
([selector, name]) => {
  const canvas = document.querySelector(selector);
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const wanted = [1, 3, 5].map(place => parseInt(hex.slice(place, place + 2), 16));
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
  copy.drawImage(canvas, 0, 0);
  const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4) {
    count += data[at + 3] === 255 && wanted.every((value, channel) => data[at + channel] === value);
  }
  return count;
}
"""  # pixels of a canvas that have a colour of the style sheet


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """0.75 s whose last third is silent."""
    samples = 0.5 * np.sin(np.arange(12_000) / 10).astype(np.float32)
    samples[8000:] = 0
    path = tmp_path_factory.mktemp("talk") / "my talk.wav"
    soundfile.write(path, samples, 16_000)
    return path


@pytest.fixture(scope="module")
def browser(talk):
    with launched(talk) as chromium:
        yield chromium


@pytest.fixture(scope="module")
def server(talk):
    long = Example("a_very_long_name_" * 8 + ".wav", talk.read_bytes(), "the <b> house thank you")
    with serving(Shown(), [long, Example("short.wav", talk.read_bytes())]) as running:
        yield running


@pytest.fixture
def opened(browser, server):
    with opening(browser) as opened_by:
        heard = []

        def opened_at(width, **look):
            page, console = opened_by(server, viewport={"width": width, "height": 800}, **look)
            heard.append((page, console, width))
            return page

        yield opened_at
        for page, console, width in heard:
            assert console.said == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def recognise(page, talk):
    page.set_input_files("#file", talk)
    page.wait_for_selector("#waveform[aria-valuemax]")
    page.click("#go")
    page.wait_for_selector("#result:not([hidden])")


def until(page, expression, given=None):
    """Wait until an expression is true; `wait_for_function` is forbidden by the policy of the page."""
    deadline = time.monotonic() + 60
    while not page.evaluate(expression, given):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)


@WIDTHS
def test_model_facts_are_at_the_top(opened, width):
    page = opened(width)
    names, values = (page.locator(f"header {tag}").all_inner_texts() for tag in ("dt", "dd"))
    assert list(zip(names, values, strict=True)) == FACTS
    assert page.inner_text("h1") == "houses" and page.locator("header").bounding_box()["y"] < 40


@WIDTHS
def test_words_are_coloured_by_confidence_and_lit_while_they_are_heard(opened, width, talk):
    page = opened(width)
    recognise(page, talk)
    words = page.locator("#written .word")
    assert words.evaluate_all("all => all.map(word => [word.innerText, word.className, word.title])") == [
        ["the", "word sure", "confidence 97 %, 0.10 s to 0.25 s"],
        ["old", "word unsure", "confidence 62 %, 0.25 s to 0.40 s"],
        ["house", "word doubtful", "confidence 31 %, 0.40 s to 0.60 s"],
    ]
    looks = words.evaluate_all("all => all.map(getComputedStyle).map(one => [one.color, one.textDecorationStyle])")
    assert len({colour for colour, _ in looks}) == 3 and [style for _, style in looks] == ["solid", "dotted", "wavy"]
    assert page.is_visible("#legend") and page.locator("#legend .word").count() == 3
    assert page.locator(".lit").count() == 0
    page.evaluate("document.getElementById('player').playbackRate = 0.1")
    for word in ("old", "house"):
        page.click(f"#written .word:has-text('{word}')")
        page.wait_for_selector(f".lit:text-is('{word}')")
        assert page.locator(".lit").count() == 1
    page.evaluate("document.getElementById('player').pause()")
    until(page, "!document.querySelector('.lit')")


@WIDTHS
def test_texts_that_may_be_invented_are_marked(opened, width, talk):
    page = opened(width)
    recognise(page, talk)
    assert page.inner_text("#written") == "the old house ? may be invented thank you"
    marks = page.locator("mark.invented")
    assert marks.count() == 2 and page.inner_text("#details h3 >> nth=1").startswith("? may be invented Segment 2")
    assert marks.first.get_attribute("title").startswith("CTC supports 10 % of the text")
    assert page.evaluate(COUNT, ["#waveform", "--bad"]) > 20


@WIDTHS
def test_the_waveform_shows_the_recording_and_moves_it(opened, width, talk):
    page = opened(width)
    page.set_input_files("#file", talk)
    page.wait_for_selector("#waveform[aria-valuemax]")
    assert page.get_attribute("#waveform", "aria-valuemax") == "0.75"
    loud, played = (page.evaluate(COUNT, ["#waveform", name]) for name in ("--soft", "--accent"))
    assert loud > 5000 and played == 0
    box = page.locator("#waveform").bounding_box()
    assert box["width"] > 0.7 * min(width, 960)
    page.mouse.click(box["x"] + box["width"] * 0.4, box["y"] + 20)
    until(page, "Math.abs(document.getElementById('player').currentTime - 0.3) < 0.01")
    until(page, "document.getElementById('waveform').getAttribute('aria-valuenow') === '0.30'")
    assert page.evaluate(COUNT, ["#waveform", "--accent"]) > 1000
    page.focus("#waveform")
    page.keyboard.press("ArrowRight")
    until(page, "Math.abs(document.getElementById('player').currentTime - 0.4) < 0.01")
    page.keyboard.press("Home")
    until(page, "document.getElementById('player').currentTime === 0")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('player').currentTime > 0.1")


@WIDTHS
def test_a_recording_that_the_browser_cannot_read_has_no_waveform(opened, width, talk, tmp_path):
    page = opened(width)
    (tmp_path / "talk.sph").write_bytes(b"NIST_1A")
    page.set_input_files("#file", tmp_path / "talk.sph")
    page.wait_for_selector("#waveform", state="hidden")
    page.set_input_files("#file", talk)
    page.wait_for_selector("#waveform[aria-valuemax]")
    assert page.is_visible("#waveform")


@WIDTHS
def test_the_level_of_the_microphone_is_shown_while_it_records(opened, width):
    page = opened(width)
    assert page.is_hidden("#level-field")
    page.click("#record")
    until(page, "document.getElementById('level').value > -12")  # a sine of 0.5 has -6 dB
    until(page, "/^-([5-9]|1[0-2]) dB$/.test(document.getElementById('decibels').innerText)")
    assert page.is_visible("#level-field") and page.locator("#level").evaluate("one => one.labels.length") == 1
    page.click("#record")
    page.wait_for_selector("#player:not([hidden])")
    assert page.is_hidden("#level-field") and page.inner_text("#error") == ""


@WIDTHS
def test_files_are_downloaded(opened, width, talk):
    page = opened(width)
    recognise(page, talk)
    expected = {
        "srt": TRANSCRIPT.to_srt(),
        "vtt": TRANSCRIPT.to_vtt(),
        "txt": "the old house\nthank you\n",
        "json": TRANSCRIPT.to_json("my talk"),
    }
    assert page.locator("#files button").all_inner_texts() == list(expected)
    for format, content in expected.items():
        with page.expect_download() as waiting:
            page.get_by_role("button", name=f"Download {format}").click()
        assert waiting.value.suggested_filename == f"my talk.{format}"
        assert waiting.value.path().read_text("utf-8") == content


@WIDTHS
def test_differences_of_alternatives_are_marked(opened, width, talk):
    page = opened(width)
    recognise(page, talk)
    rows = page.locator("#details table").first.locator("tbody tr").all()
    found = [(row.locator("del").all_inner_texts(), row.locator("ins").all_inner_texts()) for row in rows]
    assert found == [([], []), (["old"], ["cold"]), (["old "], []), ([], [" 家里"])]
    kept = "row => [...row.cells[1].querySelectorAll('span, ins')].map(part => part.textContent).join('')"
    assert [row.evaluate(kept) for row in rows] == list(TEXTS)
    assert "Compared with the first: added, missing." in page.inner_text("#details caption >> nth=0")


@pytest.mark.parametrize(
    ("best", "text", "expected"),
    [
        ("", "a", [["added", "a"]]),
        (
            "今天天气好",
            "今天天汽好吗",
            [["same", "今天天"], ["missing", "气"], ["added", "汽"], ["same", "好"], ["added", "吗"]],
        ),
        ("a b c", "a c", [["same", "a "], ["missing", "b "], ["same", "c"]]),
        ("x " * 3000, "y", None),
    ],
)
def test_texts_are_compared_by_words_and_characters(opened, best, text, expected):
    compared = "async ([best, text]) => (await import('/differences.js')).differences(best, text)"
    parts = opened(1280).evaluate(compared, [best, text])
    assert "".join(part["text"] for part in parts if part["kind"] != "added") == best
    assert "".join(part["text"] for part in parts if part["kind"] != "missing") == text
    assert expected is None or [[part["kind"], part["text"]] for part in parts] == expected


@WIDTHS
def test_a_head_says_the_second_and_the_token(opened, width, talk):
    page = opened(width)
    recognise(page, talk)
    page.click("#show")
    page.wait_for_selector("#maps canvas >> nth=1")
    second = page.locator("#maps canvas").nth(1)
    wanted = "Head 2: token predicted 3 “house”, 0.36 to 0.40 s: 100 %"
    second.scroll_into_view_if_needed()
    box = second.bounding_box()
    said = []
    for share in np.linspace(0.2, 0.99, 60):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.62 * box["height"])
        said.append(page.inner_text(".readout"))
    assert wanted in said and said[0] != said[-1] and all("3 “house”" in one for one in said)
    assert page.evaluate(COUNT, ["#maps div:nth-child(2) > canvas", "--ground"]) > 1000  # silence in the spectrogram
    page.mouse.move(0, 0)
    second.focus()
    for key in ["ArrowDown"] * 2 + ["ArrowRight"] * 7:
        page.keyboard.press(key)
    assert page.inner_text(".readout") == wanted
    page.evaluate("document.getElementById('player').playbackRate = 0.1")
    page.keyboard.press("Enter")
    until(page, "Math.abs(document.getElementById('player').currentTime - 0.36) < 0.03")
    page.select_option("[name=head]", "2")
    until(page, "document.querySelectorAll('#maps canvas').length === 1")
    assert second.count() == 0


@WIDTHS
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_part_is_readable_in_light_and_dark(opened, width, talk, scheme):
    page = opened(width, color_scheme=scheme)
    recognise(page, talk)
    page.click("#show")
    page.wait_for_selector("#maps canvas")
    parts = "h1, h2, h3, h4, p, dt, dd, label, legend, button, input, select, td, th, figcaption, ins, del, mark, .word"
    ratios = page.evaluate(CONTRAST, parts)
    assert len(ratios) > 60 and min(ratios) > 4.5
    second, most = ["#maps div:nth-child(2) > canvas", "--map-high"], f"given => ({COUNT})(given)"
    until(page, f"{most} > 20", second)
    other = {"light": "dark", "dark": "light"}[scheme]
    page.emulate_media(color_scheme=other)  # the drawings change with it
    until(page, f"{most} > 20", second)
    until(page, f"{most} > 5000", ["#waveform", "--soft"])


@WIDTHS
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_example_is_transcribed_by_a_click_and_compared_with_its_text(opened, width, scheme, server):
    page = opened(width, color_scheme=scheme)
    labels = page.locator("#clips button").all_inner_texts()
    assert labels == ["the <b> house thank you", "short.wav"]
    page.click("#clips button >> nth=0")
    page.wait_for_selector("#result:not([hidden])")
    assert server.service.sent[-1][1]["name"].startswith("a_very_long_name_")
    assert page.inner_text("#reference") == "Reference: the old<b> house thank you"
    assert page.locator("#reference ins").all_inner_texts() == ["<b>"]
    assert min(page.evaluate(CONTRAST, "#clips button, #reference, #reference ins, #reference del")) >= 4.5
    page.wait_for_selector("#waveform[aria-valuemax='0.75']")
    page.click("#clips button:text-is('short.wav')")
    page.wait_for_selector("#reference", state="hidden")
    page.wait_for_selector("#result:not([hidden])")
    assert server.service.sent[-1][1]["name"] == "short.wav" and page.is_hidden("#reference")


def test_characters_that_no_font_has_are_told(opened, browser, talk):
    page = opened(390)
    recognise(page, talk)
    assert page.is_hidden("#fontless")
    rare = Example("rare.wav", talk.read_bytes(), "the \U0010fffc house")
    with serving(Shown(), [rare]) as running, opening(browser) as opened_by:
        page, _ = opened_by(running)
        page.click("#clips button")
        page.wait_for_selector("#fontless:not([hidden])")
        assert page.inner_text("#fontless").startswith("This browser has no font for some of the characters")
