"""Models as ESPnet leaves them: decode, transcribe and pack give what its own program gives; docs has the table."""

import json
import re
import sys

import numpy as np
import pytest
import soundfile
from espnet2.bin import asr_inference, s2t_inference
from references.arpa import stand_in, write_arpa
from references.espnet_models import LETTERS, MODELS, RATE, write_model
from references.language_models import write_lm
from references.markdown import ROOT
from references.owsm_ctc import SECONDS, WEIGHTS, write_ctc_model
from references.tones import tones

from espnet_diverse.bin.main import main
from espnet_diverse.registration.transducer_loss import transducer_loss
from espnet_diverse.runs.model_files import INSIDE, NGRAM
from espnet_diverse.text.vocabulary import Vocabulary

pytestmark = pytest.mark.usefixtures("cache")
CASES = [*MODELS, "multitask_ctc", "bpe", "lm", "ngram"]
WORK = ("decode", "transcribe", "pack")
LENGTHS = (0.5, 0.75)
BEAM = ["--beam_size", "3", "--nbest", "2"]
ESPNETS = {"rnn": "RNNDecoder", "transducer": "TransducerDecoder", "multitask": "a multitask model"}
"""Models that take ESPnet's search, and what the line that says so begins with."""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty folder for packed models that are opened."""
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """Two utterances, of which one has a language."""
    folder = tmp_path_factory.mktemp("data")
    for number, seconds in enumerate(LENGTHS):
        soundfile.write(folder / f"u{number}.wav", tones(seconds, seed=number), RATE, subtype="FLOAT")
    names = [f"u{number}" for number in range(len(LENGTHS))]
    (folder / "wav.scp").write_text("".join(f"{name} {folder / name}.wav\n" for name in names))
    (folder / "utt2lang").write_text("".join(f"{name} deu\n" for name in names))
    return folder


def write_case(folder, case):
    if case == "bpe":
        pieces = Vocabulary.train(["ab cd ef gh", "abcd efgh ab", "cdef ghab"], "unigram", 20)
        pieces.save(folder.with_name("pieces"))
        files = {"bpemodel": str(folder.with_name("pieces") / "bpe.model"), "token_list": pieces.tokens}
        return write_model(folder, "e_branchformer", token_type="bpe", **files)
    if case == "multitask_ctc":
        return write_ctc_model(folder)
    write_model(folder, "conformer" if case in ("lm", "ngram") else case)
    if case == "lm":
        write_lm(folder / INSIDE, LETTERS)
    if case == "ngram":
        (folder / INSIDE).mkdir()
        write_arpa(folder / INSIDE / NGRAM, [letter for letter in LETTERS if len(letter) == 1])
    return folder


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    """The name of a model, and its directory."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "ngram":  # which needs no kenlm here
            for module in ("espnet2.legacy.nets.scorers.ngram", "espnet_diverse.upstream.ngram"):
                patch.delitem(sys.modules, module, raising=False)
            patch.setitem(sys.modules, "kenlm", stand_in())
        yield request.param, write_case(tmp_path_factory.mktemp("models") / request.param, request.param)


@pytest.fixture(scope="module")
def expected(case, data_dir):
    """The two best texts of each utterance with their scores, by ESPnet's program for the model."""
    name, folder = case
    files, beam = (folder / "config.yaml", folder / "valid.acc.ave.pth"), {"beam_size": 3, "nbest": 2}
    audio = [soundfile.read(data_dir / f"u{number}.wav", dtype="float32")[0] for number in range(len(LENGTHS))]
    if name == "multitask_ctc":
        program = s2t_inference.Speech2Text(files[0], folder / WEIGHTS, lang_sym="<deu>", **beam)
        padded = [np.pad(samples, (0, SECONDS * RATE - len(samples))) for samples in audio]
        return [[(best[3], float(best[4].score)) for best in program(samples)] for samples in padded]
    if name == "multitask":
        program = s2t_inference.Speech2Text(*files, lang_sym="<deu>", **beam)
        return [[(best[3], float(best[4].score)) for best in program(samples)] for samples in audio]
    weights = {"ctc_weight": 1.0 if name == "ctc" else 0.3, "lm_weight": 0.3 if name == "lm" else 0.0}
    added = {}
    if name == "ngram":
        added = {"ngram_file": str(folder / INSIDE / NGRAM), "ngram_weight": 0.3}
    of_lm = {"lm_train_config": folder / INSIDE / "config.yaml", "lm_file": folder / INSIDE / "valid.loss.ave.pth"}
    with transducer_loss():
        program = asr_inference.Speech2Text(
            *files, transducer_conf={"nbest": 2}, **beam, **weights, **(of_lm if name == "lm" else added)
        )
    return [[(best[0], float(best[3].score)) for best in program(samples)] for samples in audio]


def decoded(model, data_dir, output_dir):
    assert main(["decode", str(model), "--data_dir", str(data_dir), "--output_dir", str(output_dir), *BEAM]) == 0
    lines = (output_dir / "nbest.jsonl").read_text().splitlines()
    return [[(best["text"], best["score"]) for best in json.loads(line)["hypotheses"]] for line in lines]


def check(found, expected):
    """ESPnet's text of a hypothesis that is stopped at the greatest length can have <sos/eos>, and ours has not."""
    expected = [[(text.removesuffix("<sos/eos>"), score) for text, score in best] for best in expected]
    assert [[text for text, _ in best] for best in found] == [[text for text, _ in best] for best in expected]
    scores = [[score for _, score in best] for best in expected]
    for ours, theirs in zip(found, scores, strict=True):
        assert [score for _, score in ours] == pytest.approx(theirs, abs=2e-4)


def test_decode(case, expected, data_dir, tmp_path, capfd):
    name, folder = case
    found = decoded(folder, data_dir, tmp_path)
    check(found, expected)
    assert len({text for best in found for text, _ in best if text}) > 1
    said = re.findall("(?:WARNING: )?(.*) has no batched search: .*", capfd.readouterr().err)
    assert said == ([ESPNETS[name]] if name in ESPNETS else [])


def test_transcribe(case, expected, data_dir, tmp_path):
    name, folder = case
    audio = [str(data_dir / f"u{number}.wav") for number in range(len(LENGTHS))]
    language = ["--language", "deu"] if name.startswith("multitask") else []
    written = ["--output_dir", str(tmp_path), "--output_format", "json", "--vad", "none"]
    assert main(["transcribe", str(folder), *audio, *written, *language, *BEAM]) == 0
    results = [json.loads((tmp_path / f"u{number}.json").read_text()) for number in range(len(LENGTHS))]
    found = [[(b["text"], b["score"]) for b in result["segments"][0]["alternatives"]] for result in results]
    check(found, expected)


def test_pack(case, expected, data_dir, tmp_path):
    _, folder = case
    assert main(["pack", str(folder), "--output", str(tmp_path / "model.zip"), "--license", "mit"]) == 0
    check(decoded(tmp_path / "model.zip", data_dir, tmp_path / "out"), expected)


def test_the_page_has_these_models_and_commands():
    page = (ROOT / "docs" / "espnet_models.md").read_text(encoding="utf-8")
    table = page.partition("\n## ")[0]
    rows = re.findall(r"^\| [^|]* \| `(\w+)` \|(.*)\|$", table, flags=re.MULTILINE)
    assert [name for name, _ in rows] == CASES
    assert f"| model | test | {' | '.join(WORK)} |" in table
    for name, cells in rows:
        search = "ESPnet's" if name in ESPNETS else "batched"
        assert [cell.strip() for cell in cells.split("|")] == [search, search, "yes"], name
