"""The commands in the RESULTS.md of the recipes can be given as they stand: options exist, fragments merge."""

import csv
import re
import shlex
from functools import cache

import pytest
from references.markdown import ROOT, blocks, run, unfenced

from espnet_diverse.bin.main import command_parser
from espnet_diverse.runs.config import merge

PAGES = sorted((ROOT / "egs").glob("*/*/RESULTS.md"))
CALL = re.compile(r"(?:\./run\.sh|espnet-diverse) [^#>&;|]+")
MOST_LINES = 150  # of prose: not headings, rows of tables, code in fences or blank
OF_TRAINING = "--config model/tiny --train_dir train --valid_dir dev --tokens_dir tokens --stats_dir stats"
# What stands for a choice of the reader, and one of the choices.
CHOICES = {"NAME": "softmax", "SEED": "0", "B": "1", "N": "1", "CONFIG": "model/tiny,attention/softmax"}


def calls(page):
    """The calls of recipes and of our program in a file, with the values of the variables of their block."""
    for block in blocks(page, "sh"):
        values = dict(re.findall(r'^(\w+)="([^"]*)"$', block, flags=re.MULTILINE)) | {"OPTIONS": OF_TRAINING}
        for line in block.replace("\\\n", " ").splitlines():
            for call in CALL.findall(line):
                for name, value in values.items():
                    call = call.replace(f"${name}", value)
                yield page.parent, re.sub(r"\b[A-Z]+\b", lambda match: CHOICES.get(match[0], match[0]), call)


@cache
def options(folder):
    lines = run(["./run.sh", "--defaults"], folder).stdout.splitlines()
    return {f"--{line.split(chr(9))[0]}" for line in lines}


@pytest.mark.parametrize(("folder", "call"), [call for page in PAGES for call in calls(page)])
def test_a_command_behind_a_result_can_be_given(folder, call, monkeypatch):
    program, *words = shlex.split(call)
    if program == "espnet-diverse":
        command_parser(words[0])[1].parse_intermixed_args(words[1:])
        return
    assert {word for word in words if re.fullmatch(r"--\w+", word)} <= options(folder)
    monkeypatch.chdir(folder)
    given = list(zip(words, words[1:], strict=False))
    for config in (value for option, value in given if option == "--config"):
        merge(config.split(","), [value for option, value in given if option == "--set"])


def prose(page):
    """The lines of a file that are neither headings, rows of tables, code in fences nor blank."""
    return [line for line in unfenced(page) if line.strip() and not line.startswith(("|", "#"))]


def test_a_page_has_little_prose():
    counts = {str(page.relative_to(ROOT)): len(prose(page)) for page in PAGES}
    long = {name: count for name, count in counts.items() if count > MOST_LINES}
    assert not long, f"more than {MOST_LINES} lines of prose: {long}"


def test_every_call_is_found():
    written = [
        re.findall(r"^ *(?:\./run\.sh|espnet-diverse) ", b, re.MULTILINE) for p in PAGES for b in blocks(p, "sh")
    ]
    assert 30 < sum(map(len, written)) <= sum(len(list(calls(page))) for page in PAGES)
    assert len(FULL) > 10


FULL = [
    (page, command)
    for page in PAGES
    if page.parent.name == "st1"
    for line in page.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ")
    for command in re.findall(r"`(\./run\.sh --corpus_dir DIR[^`]*)`", line)
]


@pytest.mark.parametrize(("page", "command"), FULL)
def test_speech_translation_begins_with_the_encoder_of_a_recogniser(page, command):
    """As in the head-selection paper, section 4.3."""
    assert "--init_param ASR:encoder:encoder" in command
    assert "`ASR` is `../asr1/exp/TAG/valid.acc.ave.pth`" in page.read_text(encoding="utf-8")


# Tables of a row for each attention, "score of seed 0 / score of seed 1" and "p / p" for each set: the experiment, the
# sets, and how the rows begin.
ATTENTIONS = {
    "aishell/asr1": ("aishell_sample_4", ["dev", "test"], {
        "sma": "sma ", "sdma": "sdma ", "window": "window of 16", "bigbird": "BigBird, blocks",
        "linformer": "Linformer, length 64", "luna_encoder": "Luna, 32", "lambda_encoder": "lambdas ",
        "random_features_encoder": "random features, 256", "xl": "XL, segments", "compressive": "Compressive, segments",
        "cdt": "CDT, segments of 32", "svgd": "heads repelled by SVGD",
    }),
    "multi30k/mt1": ("multi30k_5k", ["dev", "test_2016_flickr", "test_2017_flickr"], {
        "window": "window of 4", "bigbird": "BigBird in blocks", "linformer": "Linformer in the encoder, length",
        "lambda_attention": "lambdas everywhere", "lambda_encoder": "lambdas in the encoder", "luna": "Luna everywhere",
        "random_features": "positive random features", "luna_encoder": "Luna in the encoder", "xl": "XL in the encoder",
        "compressive": "Compressive in the encoder",
    }),
}  # fmt: skip


@cache
def scores():
    with (ROOT / "egs/reproduce.tsv").open(encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return {tuple(row[key] for key in ("experiment", "run", "seed", "set")): row for row in rows}


@pytest.mark.parametrize(("recipe", "run"), [(recipe, run) for recipe, table in ATTENTIONS.items() for run in table[2]])
def test_a_row_has_the_scores_of_its_runs(recipe, run):
    experiment, sets, beginnings = ATTENTIONS[recipe]
    page = (ROOT / "egs" / recipe / "RESULTS.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^\| {beginnings[run]}.*\| \d\d\.\d / .*$", page, re.MULTILINE)
    cells = [cell.split("/") for cell in line.strip("|").split("|")[1:]]
    for number, name in enumerate(sets):
        for seed in (0, 1):
            row = scores()[experiment, run, str(seed), name]
            score, p = (cells[2 * number + i][seed].strip() for i in range(2))
            assert abs(float(score) - float(row["score"])) < 0.0501
            assert not p and not row["p"] or abs(float(p) - float(row["p"])) < 0.0051
