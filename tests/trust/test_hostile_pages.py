"""Pages of commands with texts and names of an attacker: they stay text, and the page asks nothing of a network.

Each page is read by a parser of HTML, and by a Chromium where there is one.
"""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from demo.pages import CHROMIUM
from references.figures import leave_pictures_empty

from espnet_diverse.analysis.html_page import Page
from espnet_diverse.bin.main import main
from espnet_diverse.contest.report import Document
from espnet_diverse.data.tables import write_table

ROOT = Path(__file__).parents[2]
HOSTILE = (
    "<script>document.title='ran'</script>",
    "\"'><img src=http://host.example/x onerror=document.title='ran'>",
    "</style></script><svg onload=document.title='ran'>",
    "<meta http-equiv=refresh content=0;url=http://host.example>",
    "javascript:document.title='ran'",
    "\u202egnp.exe\u2066 \u200fא",
    "\x01\x1b[2J&#60;script&#62;",
    "x" * 100_000,
)
ADDRESS = re.compile(r"(#|data:image/png;base64,)")


class Reader(HTMLParser):
    """The tags, attributes and texts of a page."""

    def __init__(self, page: Path):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def write_page(_, folder):
    """By each method of a page."""
    page = Page(HOSTILE[0])
    for text in HOSTILE:
        page.heading(text)
        page.subheading(text)
        page.paragraph(text)
        page.terms([(text, text)])
        page.table([text, text], [[text, text]])
    page.write(folder / "page.html")
    return folder / "page.html", 0


def write_contest(_, folder):
    document = Document(HOSTILE[0], "pictures")
    for text in HOSTILE:
        document.heading(text)
        document.paragraph(text)
        document.terms([(text, text)])
        document.table([text], [[text]])
    document.write(folder / "contest")
    return folder / "contest.html", 0


def compare(request, folder):
    run, words = request.getfixturevalue("scored_run"), [*HOSTILE[:2], HOSTILE[6]]
    assert main(["compare", *[str(run)] * 3, "--names", *words, "--output_dir", str(folder)]) == 0
    return folder / "compare.html", 0


def score(_, folder):
    for name, texts in (("reference", HOSTILE), ("hypothesis", HOSTILE[::-1])):
        write_table(folder / name, {f"u{index}": text.replace(" ", "_") for index, text in enumerate(texts)})
    tables = [f"--{name}={folder / name}" for name in ("reference", "hypothesis")]
    assert main(["score", *tables, "--output_dir", str(folder / "out")]) == 0
    return folder / "out" / "alignment.cer.html", 1


def validate(request, folder):
    data_dir = request.getfixturevalue("data_dir")
    names = [line.split()[0] for line in (data_dir / "text").read_text().splitlines()]
    write_table(data_dir / "text", dict(zip(names, HOSTILE, strict=False)))
    main(["validate", str(data_dir), "--figures", str(folder)])
    return folder / "validate.html", 0


@pytest.fixture(params=[write_page, write_contest, compare, score, validate])
def page(request, tmp_path, monkeypatch):
    """A page, and the number of scripts that it has itself."""
    leave_pictures_empty(monkeypatch)
    (folder := tmp_path / "folder").mkdir()
    return request.param(request, folder)


def test_texts_stay_texts(page):
    path, scripts = page
    reader = Reader(path)
    assert reader.tags.count("script") == scripts
    assert not {"svg", "iframe", "object", "embed", "link", "base"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name in ("style", "http-equiv")]
    addresses = [value for name, value in reader.attributes if name in ("src", "href", "action")]
    assert all(map(ADDRESS.match, addresses)) or path.name == "validate.html"
    assert not [value for value in addresses if re.match(r"\w+:(?!image/png)", value)]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", path.read_text(encoding="utf-8"))


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_a_browser_runs_nothing_and_asks_for_nothing(page):
    browser = pytest.importorskip("playwright.sync_api", reason="playwright, the extra `browser`, is not installed")
    path, _ = page
    with browser.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        shown, asked = chromium.new_page(), []
        shown.on("request", lambda request: asked.append(request.url))
        shown.goto(path.as_uri())
        assert shown.title() != "ran" and shown.url == path.as_uri()
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        chromium.close()


def test_one_function_escapes_what_pages_show():
    """Modules that write HTML take `escaped`; other uses of `html` are of formats that are no pages."""
    pages, others = set(), set()
    for module in (ROOT / "espnet_diverse").rglob("*.py"):
        source = module.read_text(encoding="utf-8")
        if "<!DOCTYPE html>" in source and "escaped(" in source:
            pages.add(module.stem)
        elif "<!DOCTYPE html>" in source or re.search(r"html\.escape\(|from html import|innerHTML", source):
            others.add(module.stem)
    assert pages == {"html_page", "alignment_page"}
    assert others == {"shown_text", "formats", "parallel_text"}, json.dumps(sorted(others))
