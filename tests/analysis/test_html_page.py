import base64
import re
from html import unescape

from espnet_diverse.analysis.html_page import Page


def test_a_page_has_all_added_parts_escaped(tmp_path):
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n rest")
    page = Page("A < B")
    page.heading("Part")
    page.paragraph("1 & 2")
    page.terms([("<eos>", "the end")])
    page.table(["name", "value"], [["<sos>", "1"], ["é", "2"]])
    page.picture(picture, 'says "this"', "a <line>")
    page.write(tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    head, body = html.split("<body>")
    assert "<title>A &lt; B</title>" in head and not re.search("<(script|link|iframe)", html)
    assert [unescape(word.strip()) for word in re.split("<[^>]*>", body) if word.strip()] == [
        *("A < B", "Part", "Part", "1 & 2", "<eos>", "the end", "name", "value", "<sos>", "1", "é", "2"),
        *('says "this"', "Look for", "a <line>"),
    ]
    (image,) = re.findall('<img src="data:image/png;base64,([^"]*)" alt="says &quot;this&quot;">', body)
    assert base64.b64decode(image) == picture.read_bytes()


def test_the_contents_link_to_the_sections_and_a_phone_is_as_wide_as_it_is(tmp_path):
    page = Page("Heads")
    for title in ("Redundancy", "Clusters & queries"):
        page.heading(title)
    page.write(tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    for number, title in enumerate(("Redundancy", "Clusters &amp; queries"), 1):
        assert f'<a href="#{number}">{title}</a>' in html and f'<h2 id="{number}">{title}</h2>' in html
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in html
    assert "<nav" not in html[html.index("</nav>") + 1 :]


def test_text_columns_are_marked_and_rows_may_have_audio(tmp_path):
    page = Page("Tables")
    page.table(("id", "n", "text"), [("1", "2.0", "a"), ("2", "–", "3 b")])
    page.table(("id", "n"), [("u", "−1"), ("v", "2")], [None, 'a"b.wav#t=1,2'])
    page.write(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<th>id</th><th>n</th><th class="words">text</th>' in text
    assert '<tr><td>2</td><td>–</td><td class="words">3 b</td></tr>' in text
    assert '<th>id</th><th class="words">audio</th><th>n</th>' in text and "<td>u</td><td></td><td>−1</td>" in text
    assert '<td>v</td><td><audio controls preload="none" src="a&quot;b.wav#t=1,2"></audio></td><td>2</td>' in text
