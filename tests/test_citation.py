"""CITATION.cff names this version and the five papers, with all that a reader needs to find them."""

import re
from pathlib import Path

import pytest
import yaml

from espnet_diverse import __version__

CITATION = yaml.safe_load((Path(__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8"))
REQUIRED = {"type", "title", "authors", "year", "notes"}
VENUE = {"article": "journal", "conference-paper": "conference"}


def test_the_software_is_named_with_its_version():
    """The Citation File Format 1.2.0 requires the first four keys."""
    assert {"cff-version", "message", "title", "authors"} <= set(CITATION)
    assert (CITATION["cff-version"], CITATION["version"]) == ("1.2.0", __version__)


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
