"""CITATION.cff names the last release and the five papers, with all that a reader needs to find them."""

import re
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from espnet_diverse import __version__

ROOT = Path(__file__).parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
REQUIRED = {"type", "title", "authors", "year", "notes"}
VENUE = {"article": "journal", "conference-paper": "conference"}


def test_the_software_is_named():
    """The Citation File Format 1.2.0 requires these four keys."""
    assert {"cff-version", "message", "title", "authors"} <= set(CITATION)
    assert CITATION["cff-version"] == "1.2.0"


def test_the_version_is_the_last_release_of_the_changelog():
    released = re.search(r"^## (\d[\d.]*) \((\d{4}-\d\d-\d\d)\)$", CHANGELOG, flags=re.MULTILINE)
    assert (CITATION["version"], str(CITATION["date-released"])) == released.groups()


def test_the_package_is_newer_than_the_last_release_while_changes_are_unreleased():
    ours, released = Version(__version__), Version(CITATION["version"])
    assert str(ours) == __version__  # the normal form of PEP 440, which wheels are named by
    if "\n## Unreleased\n" in CHANGELOG:
        assert ours > released and ours.is_devrelease
    else:
        assert ours == released


def test_five_different_papers_are_referred_to():
    assert len({paper["title"] for paper in CITATION["references"]}) == len(CITATION["references"]) == 5


@pytest.mark.parametrize("paper", CITATION["references"], ids=lambda paper: paper["title"].split(":")[0])
def test_a_paper_has_authors_title_venue_and_year(paper):
    assert set(paper) >= {*REQUIRED, VENUE[paper["type"]]}
    assert len(paper["authors"]) > 1
    assert all(author.keys() == {"given-names", "family-names"} for author in paper["authors"])
    assert 2017 <= paper["year"] <= 2026
    if "doi" in paper:
        assert re.fullmatch(r"10\.\d{4,9}/\S+", paper["doi"])


def test_the_paper_of_sdma_has_its_doi():
    papers = {paper["title"]: paper for paper in CITATION["references"]}
    assert papers["Latent Semantic and Disentangled Attention"]["doi"] == "10.1109/TPAMI.2024.3432631"
