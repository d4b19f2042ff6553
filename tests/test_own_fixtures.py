"""Models that earlier versions of this package trained and packed decode as they did then.

`tests/fixtures/make_own_models.py` made them. Paths in a run are those of another machine.
"""

import json

import pytest
from fixtures.recordings import TEST, translation
from references.fixture_utterances import write_utterances
from references.markdown import ROOT

from espnet_diverse.bin.main import main

VERSIONS = ("0.1.0", "0.2.0")
MODELS = ("asr_softmax", "asr_sdma", "asr_group", "mt_sdma")
BEAM = ["--beam_size", "3", "--nbest", "2"]


@pytest.mark.parametrize("form", ["run", "packed.zip"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("made_by", VERSIONS)
def test_the_texts_match_the_version(made_by, name, form, tmp_path, monkeypatch):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    root = ROOT / "tests" / "fixtures" / f"espnet_diverse_{made_by}"
    data_dir = write_utterances(tmp_path / "data", map(translation, TEST.values()), ["xx", "yy"])
    folders = ["--data_dir", str(data_dir), "--output_dir", str(tmp_path / "decode")]
    assert main(["decode", str(root / name / form), *folders, *BEAM]) == 0
    expected = json.loads((root / "expected.json").read_text())["models"][name]
    lines = (tmp_path / "decode" / "nbest.jsonl").read_text().splitlines()
    for line, (utterance, best) in zip(lines, expected.items(), strict=True):
        found = json.loads(line)["hypotheses"][: len(best)]
        assert [each["text"] for each in found] == [each["text"] for each in best], utterance
        scores = [each["score"] for each in best]
        assert [each["score"] for each in found] == pytest.approx(scores, abs=2e-4), utterance
