"""CITATION.cff names the last release, and has the keys that its format requires."""

import re

import yaml
from references.markdown import ROOT


def test_the_last_release_can_be_cited():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.search(r"^## (\d[\d.]*) \((\d{4}-\d\d-\d\d)\)$", changelog, flags=re.MULTILINE)
    assert {"message", "title", "authors"} <= set(citation) and citation["cff-version"] == "1.2.0"
    assert (citation["version"], str(citation["date-released"])) == released.groups()
    assert all({"type", "title", "authors", "year"} <= set(paper) for paper in citation["references"])
