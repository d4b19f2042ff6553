"""The page of what could be reproduced: tables and pictures are those of the scores, and each claim has a section."""

import importlib.util
import re
import shutil
import sys
from fnmatch import fnmatchcase

import pytest
import yaml
from references.markdown import ROOT

EGS = ROOT / "egs"
FILE = ROOT / "docs" / "reproduction.md"
PAGE = FILE.read_text(encoding="utf-8")
MOST_WORDS = 120  # of a section
VERDICTS = re.findall(r"^\| ([\w ]+) \| [^|]+ \|$", PAGE.split("\n## ")[0], flags=re.MULTILINE)[1:]
PAPERS = yaml.safe_load((EGS / "claims.yaml").read_text(encoding="utf-8"))
TRIED = [one["claim"] for claims in PAPERS.values() for one in claims if one["verdict"] != "not tried"]
SECTIONS = dict(re.findall(r"^### (.+)\n((?:(?!^##+ ).*\n?)*)", PAGE, flags=re.MULTILINE))
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE[PAGE.index("\n## ") :].splitlines()
    if line.startswith("| [")
]
RUNS = [
    f"{experiment}/{name}/{seed}"
    for experiment, shared in yaml.safe_load((EGS / "reproduce.yaml").read_text(encoding="utf-8")).items()
    for name, settings in shared["runs"].items()
    for seed in settings.get("seeds", shared["seeds"])
]

each_section = pytest.mark.parametrize("name", SECTIONS)


@pytest.fixture(scope="module")
def reproduction_page():
    """The script, which imports the module beside it as a user's Python does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EGS))
        spec = importlib.util.spec_from_file_location("reproduction_page", EGS / "reproduction_page.py")
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture
def copied(tmp_path):
    """A copy of the page with its pictures, the claims and the scores, and the options that name them."""
    for path in (FILE, EGS / "claims.yaml", EGS / "reproduce.tsv", *FILE.parent.glob("reproduction_*.png")):
        shutil.copy(path, tmp_path)
    names = {"--page": "reproduction.md", "--claims": "claims.yaml", "--results": "reproduce.tsv"}
    return tmp_path, [word for option, name in names.items() for word in (option, str(tmp_path / name))]


def change(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def text_of(name):
    """A section in one line, as its lines break anywhere."""
    return " ".join(SECTIONS[name].split())


def printed_by(place, title):
    """A section of the RESULTS.md of a recipe, or of the page that is named, without the sections below it."""
    path = ROOT / place if place.endswith(".md") else EGS / place / "RESULTS.md"
    section = re.compile(rf"^#+ {re.escape(title)}\n((?:(?!^#+ ).*\n?)*)", flags=re.MULTILINE)
    (found,) = section.findall(path.read_text(encoding="utf-8"))
    return found


def test_tables_and_pictures_match_the_scores(reproduction_page):
    reproduction_page.main(["--check"])


def test_a_score_that_changes_fails_until_the_page_is_written(reproduction_page, copied):
    folder, options = copied
    change(folder / "reproduce.tsv", "multi30k\tsdma\t0\tdev\tbleu\t36.72", "multi30k\tsdma\t0\tdev\tbleu\t39.72")
    with pytest.raises(SystemExit, match="SDMA-T translates better than V-T.* is not what the scores and claims give"):
        reproduction_page.main([*options, "--check"])
    reproduction_page.main(options)
    reproduction_page.main([*options, "--check"])
    shutil.copy(FILE.parent / "reproduction_sdma.png", folder)  # of the scores as they were
    with pytest.raises(SystemExit, match=r"reproduction_sdma\.png does not show what the scores and claims give"):
        reproduction_page.main([*options, "--check"])


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("reproduce.tsv", "multi30k\tsoftmax\t0\tdev", "other\tsoftmax\t0\tdev", "softmax/0 has no score of dev;"),
        ("claims.yaml", "metric: BLEU", "metric: chrF", "metric 'chrF' is not known; give BLEU, CER, WER"),
    ],
)
def test_scores_that_cannot_be_compared_are_refused(reproduction_page, copied, file, old, new, said):
    folder, options = copied
    change(folder / file, old, new)
    with pytest.raises(SystemExit, match=re.escape(said)):
        reproduction_page.main(options)


def test_the_interval_is_welchs_as_multi30k_has_it(reproduction_page):
    given = {"of": "Multi30k", "run": "multi30k/sdma", "baseline": "softmax"}
    results = reproduction_page.read_results(EGS / "reproduce.tsv")
    found = reproduction_page._measured(given, results, "")
    assert (found.gain, found.unit, found.seeds) == (0.0, "BLEU", (3, 3))
    assert found.interval == pytest.approx((-0.55, 0.47), abs=0.06)  # with one digit


def test_an_error_rate_or_perplexity_that_falls_is_a_gain(reproduction_page):
    assert reproduction_page._gain("WER", [40.0], [49.0]) == ("WER", 9.0)
    assert reproduction_page._gain("BLEU", [35.2], [34.5]) == ("BLEU", 0.7)
    assert reproduction_page._gain("perplexity", [21.9], [31.2]) == ("% perplexity", 29.8)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("claim: BERT fusion helps", f"claim: {'word ' * 13}", "a cell has at most 12 words"),
        ("run: multi30k/sdma,", "run: multi30k/sdmo,", "there is no score of multi30k/sdmo"),
        ("verdict: mostly", "verdict: perhaps", "verdicts are reproduced, mostly"),
        ("ours: no CPU time yet", "our: no CPU time yet", "ours is None"),
        ("baseline: softmax}", "base: softmax}", "each of its entries has baseline of run"),
        ("\nsdma:", "\nother:", "no line '<!-- other, by egs/reproduction_page.py -->'"),
    ],
)
def test_a_wrong_file_of_claims_is_refused_in_one_line(reproduction_page, copied, old, new, message):
    folder, options = copied
    change(folder / "claims.yaml", old, new)
    with pytest.raises(SystemExit, match=re.escape(message)) as end:
        reproduction_page.main(options)
    assert "\n" not in end.value.code


def test_verdicts_are_explained(reproduction_page):
    assert tuple(VERDICTS) == reproduction_page.VERDICTS
    assert {row[-1] for row in ROWS} == set(VERDICTS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_cell_has_at_most_twelve_words(row):
    assert len(row) == 4 and all(0 < len(re.sub(r"\(#[^)]+\)", "", cell).split()) <= 12 for cell in row)


def test_each_claim_that_was_tried_has_a_section_and_no_other():
    assert [name for name in SECTIONS if not name.startswith("Not tried: ")] == TRIED
    assert len(set(TRIED)) == len(TRIED)


@pytest.mark.parametrize("paper", PAPERS)
def test_claims_that_were_not_tried_are_listed(paper):
    heading = f"not tried: {paper}".replace("_", " ")
    listed = [
        claim for name in SECTIONS if name.lower() == heading for claim in re.findall(r"\*\*(.+?)\*\*", text_of(name))
    ]
    assert sorted(listed) == sorted(one["claim"] for one in PAPERS[paper] if one["verdict"] == "not tried")


@each_section
def test_a_section_is_short(name):
    assert len(SECTIONS[name].split()) <= MOST_WORDS


@each_section
def test_places_are_there_and_print_a_command(name):
    titles = re.findall(r"`([\w/.]+)`, ((?:\"[^\"]+\"(?: and )?)+)", text_of(name))
    for place, quoted in titles:
        for title in re.findall(r'"([^"]+)"', quoted):
            command = r"\./run\.sh|espnet-diverse |python \S*benchmarks/|--only"
            assert re.search(command, printed_by(place, title)), (place, title)
    if name in TRIED:
        assert titles or "`pytest " in text_of(name)


@each_section
def test_runs_and_tests_that_are_named_exist(name):
    for pattern in re.findall(r"--only '([^']+)'", text_of(name)):
        assert any(fnmatchcase(run, pattern) for run in RUNS), pattern
    for files in re.findall(r"`pytest ([^`]+)`", text_of(name)):
        assert all((ROOT / file).is_file() for file in files.split())
