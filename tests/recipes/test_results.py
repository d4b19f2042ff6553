"""The commands in the RESULTS.md of the recipes can be given as they stand: options exist, fragments merge."""

import re
import shlex
from functools import cache

import pytest
from references.markdown import ROOT, blocks, run

from espnet_diverse.bin.main import command_parser
from espnet_diverse.training.config import merge

PAGES = sorted((ROOT / "egs").glob("*/*/RESULTS.md"))
CALL = re.compile(r"(?:\./run\.sh|espnet-diverse) [^#>&;|]+")
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
    return set(re.findall(r"^  (--\w+) ", run(["./run.sh", "--help"], folder).stdout, flags=re.MULTILINE))


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


def test_every_call_is_found():
    written = [
        re.findall(r"^ *(?:\./run\.sh|espnet-diverse) ", b, re.MULTILINE) for p in PAGES for b in blocks(p, "sh")
    ]
    assert sum(map(len, written)) <= sum(len(list(calls(page))) for page in PAGES)
