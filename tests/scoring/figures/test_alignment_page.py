"""The page of alignments: its content, and its behaviour in a browser."""

import re

import numpy as np
import pytest
import soundfile
from demo.pages import CHROMIUM, CONTRAST

from espnet_diverse.scoring.alignment import Alignment
from espnet_diverse.scoring.figures.alignment_page import WorstAlignments, write_alignment_page
from espnet_diverse.scoring.figures.audio_links import AudioLinks

WORDS = [
    Alignment("utt-right", (("yes", "yes"),)),
    Alignment("utt-one", (("the", "the"), ("cat", "hat"), ("sat", "sat"))),
    Alignment("utt-all", (("a", None), ("b", None), (None, "c"), ("the", "the"), ("d", "e"), ("f", "g"))),
    Alignment("utt-evil", (("<script>alert(1)</script>", '"><img src=x onerror=alert(2)>'), ("广州", None))),
]


@pytest.fixture
def written(tmp_path):
    """written(alignments, unit) -> the page and its text; utt-one has audio."""

    def write(alignments=WORDS, unit="word", most=300):
        soundfile.write(tmp_path / "one.wav", np.zeros(80_000, np.float32), 16_000)
        (tmp_path / "wav.scp").write_text(f"utt-one {tmp_path}/one.wav\n")
        path = tmp_path / "alignment.html"
        audio = AudioLinks(tmp_path, path)
        worst = WorstAlignments(most)
        assert list(worst.watch(iter(alignments))) == list(alignments)
        write_alignment_page(worst, unit, 'test <"&>: WER 9.1 %', audio, path)
        return path, path.read_text(encoding="utf-8")

    return write


def names(page):
    return re.findall(r"<b>([^<]*)</b>", page)


def test_the_worst_come_first_and_others_are_counted(written):
    _, page = written()
    assert names(page) == ["utt-all", "utt-evil", "utt-one"]
    assert "<p>3 of 4 utterances have errors; the worst come first.</p>" in page
    _, page = written(most=2)
    assert names(page) == ["utt-all", "utt-evil"]
    assert "3 of 4 utterances have errors; the 2 with the most are here, the worst first." in page
    _, page = written(WORDS[:1])
    assert names(page) == [] and "<p>0 of 1 utterances have errors.</p>" in page


def test_runs_of_a_kind_are_marked_together(written):
    _, page = written()
    assert "2 substituted, 2 deleted, 1 inserted of 5 words" in page and "1 substituted of 3 words" in page
    shown = '<del class="d">a b</del> <ins class="i">c</ins> the <span class="s"><del>d f</del><ins>e g</ins></span>'
    assert f'<p class="text" dir="auto">{shown}</p>' in page
    _, page = written([Alignment("u", (("广", "广"), ("州", "周"), (" ", None), ("a", "a"), (" ", " ")))], "char")
    assert '>广<span class="s"><del>州</del><ins>周</ins></span><del class="d">␣</del>a </p>' in page


def test_no_text_is_read_as_html(written):
    _, page = written()
    assert page.count("<script>") == 1 and "<img" not in page and "<title>test &lt;&quot;&amp;&gt;: WER" in page
    assert "<del>&lt;script&gt;alert(1)&lt;/script&gt;</del>" in page


def test_only_utterances_with_audio_have_a_button(written):
    _, page = written()
    assert re.findall("<button.*?</button>", page) == [
        '<button type="button" data-audio="one.wav" aria-label="Play utt-one">Play</button>'
    ]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_in_a_browser(written):
    browser = pytest.importorskip("playwright.sync_api", reason="playwright, the extra `browser`, is not installed")
    path, _ = written([*WORDS, Alignment("utt-" + "long" * 60, (("w" * 300, None),))])
    with browser.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-gpu", "--autoplay-policy=no-user-gesture-required"]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        for scheme in ("light", "dark"):
            page = chromium.new_page(viewport={"width": 390, "height": 800}, color_scheme=scheme)
            said = []
            page.on("console", lambda message, said=said: said.append(message.text))
            page.on("pageerror", lambda error, said=said: said.append(str(error)))
            page.on("dialog", lambda dialog, said=said: said.append(dialog.message))
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") == 390
            assert min(page.evaluate(CONTRAST, "p, del, ins, b, .head span, button, output")) >= 4.5
            check_filter(page)
            check_player(page)
            assert said == []
        for reference in ("to go", "togo"):
            path, _ = written([Alignment("utt-go", (*zip(reference, reference, strict=True), ("a", "b")))], "char")
            page.goto(path.as_uri())
            for words, count in (("To go", 1), (" togoa", 1), ("to be", 0)):
                page.fill("#words", words)
                assert page.inner_text("#count") == f"{count} of 1 shown"
        chromium.close()


def check_filter(page):
    def shown():
        return [name for name in page.locator("li:not([hidden]) b").all_text_contents() if len(name) < 20]

    assert shown() == ["utt-all", "utt-evil", "utt-one"] and page.inner_text("#count") == "4 of 4 shown"
    page.select_option("#kind", "i")
    assert shown() == ["utt-all"] and page.inner_text("#count") == "1 of 4 shown"
    page.select_option("#kind", "")
    page.fill("#words", " Sat ")
    assert shown() == ["utt-one"]
    page.fill("#words", "广州")
    assert shown() == ["utt-evil"]
    page.fill("#words", "")


def check_player(page):
    button = page.get_by_role("button", name="Play utt-one")
    button.click()
    assert button.inner_text() == "Stop"
    button.click()
    assert button.inner_text() == "Play"
