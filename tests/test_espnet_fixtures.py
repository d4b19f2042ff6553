"""Models that the programs of two versions of ESPnet trained, as they left them: each command gives ESPnet's outputs.

`tests/fixtures` holds the models and what ESPnet's inference of the same version made of two recordings. A cell is one
model and one use of it; those that are refused are in `REFUSED`, with what is said.
"""

import json
import re
import shutil
from importlib.metadata import version

import numpy as np
import pytest
from fixtures.espnet_kinds import KINDS, PACKED, WITH_LANGUAGE_MODEL
from fixtures.recordings import TEST
from references.espnet_fixtures import FIRST, FIXTURES, Model
from references.fixture_utterances import write_utterances
from references.markdown import ROOT

from espnet_diverse.analysis.measurements import observe_utterance
from espnet_diverse.analysis.teacher_forcing import load, source_vocabulary, target_vocabulary
from espnet_diverse.bin.main import main
from espnet_diverse.data.kaldi import read_data_dir
from espnet_diverse.decoding.condition_ids import known_conditions
from espnet_diverse.decoding.directory.perplexity import Scorer
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import UserError

AGES = ("202511", "202611")
BEAM = ["--beam_size", "3", "--nbest", "2"]
ROUNDING = 2e-6
"""Largest difference between two versions of PyTorch or two processors, as a share of the largest number."""


class CommandError(AssertionError):
    """A command ended with an error; its last line."""


def uses(name):
    """What is done with a model."""
    if KINDS[name].task == "lm":
        return ("load", "outputs", "perplexity", "fusion", "adopt", "analyse")
    typed = "translate" if KINDS[name].task == "mt" else "transcribe"
    return (*SPEECH.replace("transcribe", typed).split(), *(["packed"] if name in PACKED else []))


SPEECH = "load outputs decode bare transcribe pack adopt analyse"
CELLS = [(Model(age, name), use) for age in AGES for name in KINDS for use in uses(name)]


def table(*rows):
    """Rows of models, uses and what is said, as a dict by model and use."""
    return {(name, use): said for names, some, said in rows for name in names.split() for use in some.split()}


REFUSED = table(
    ("asr_rnn", "adopt", "encoder 'rnn' cannot be adopted"),
    ("asr_rnn", "analyse", "neither encoder nor decoder has an attention that keeps one matrix of weights for each"),
    ("asr_transducer", "adopt", "decoder 'transducer' cannot be adopted"),
    ("transducer", SPEECH, "a model of task asr_transducer is not possible here; use espnet2.bin.asr_transducer_infer"),
    ("lm_rnn", "adopt", "lm 'seq_rnn' cannot be adopted"),
    ("lm_transformer lm_rnn", "analyse", "a model of task lm cannot be analysed; known: asr st mt s2t_ctc"),
    ("s2t_e_branchformer", "analyse", "a model of task s2t cannot be analysed; known: asr st mt s2t_ctc"),
)
"""Cells that are refused for good, and what is said."""


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """The utterances, in English, with their texts as source text too."""
    return write_utterances(tmp_path_factory.mktemp("utterances") / "data", TEST.values(), ["eng"] * len(TEST))


class Cell:
    """The uses of a model; each compares with ESPnet, or raises what is said.

    Args:
        model: The model.
        data_dir: The utterances.
        folder: An empty folder to write to.
        capfd: The streams of the process.
    """

    def __init__(self, model, data_dir, folder, capfd):
        self.model, self.data_dir, self.out, self.capfd = model, data_dir, folder, capfd
        self.audio = [str(data_dir / f"{name}.wav") for name in TEST]

    def run(self, command, *arguments):
        """Run a command.

        Raises:
            CommandError: It ended with an error.
        """
        self.capfd.readouterr()
        code = main([command, *map(str, arguments)])
        said = self.capfd.readouterr().err.strip()
        if code:
            raise CommandError(f"{command}: {code}: {said.splitlines()[-1] if said else ''}")
        return said

    def decoded(self, model, *arguments):
        """The n-best texts of a model with their scores, for each utterance."""
        longest = ["--maxlenratio", "2"] if self.model.kind.task == "mt" else []
        folders = ["--data_dir", self.data_dir, "--output_dir", self.out / "decode"]
        self.run("decode", model, *folders, *BEAM, *longest, *arguments)
        lines = (self.out / "decode" / "nbest.jsonl").read_text().splitlines()
        return [[(best["text"], best["score"]) for best in json.loads(line)["hypotheses"]] for line in lines]

    def load(self):
        """Load the model with all weights, as what it is."""
        if self.model.kind.task == "lm":
            return Scorer(self.model.folder)
        loaded = load_predictor(self.model.folder, self.model.kind.weights)
        assert loaded.task == self.model.kind.task
        return loaded

    def outputs(self):
        """The encoder's output, or the log probability of a text."""
        expected, loaded = self.model.outputs(), self.load()
        if self.model.kind.task == "lm":
            tokens = loaded.vocabulary.encode(FIRST)
            assert loaded([tokens], [{}]) == pytest.approx([self.model.probability()], abs=1e-5)
            return
        given = FIRST if self.model.kind.task == "mt" else self.audio[0]
        found = loaded.encode([loaded.read(given)[0]], [dict.fromkeys(loaded.conditions.names, 0)]).output[0]
        assert found.shape == expected.shape
        assert np.abs(found.numpy() - expected).max() <= ROUNDING * np.abs(expected).max()

    def decode(self):
        """Decode with the directory of the run, as it is."""
        check(self.decoded(self.model.folder), self.model.texts())

    def bare(self):
        """Decode with the averaged file alone, without the link to it, as in repositories of models."""
        folder = self.out / "exp" / self.model.name
        folder.mkdir(parents=True)
        for path in [self.model.folder / "config.yaml", *self.model.folder.glob("*.ave_10best.pth")]:
            shutil.copy(path, folder)
        (self.out / "data").symlink_to(self.model.root / "data")
        for path in (self.model.root / "exp").glob("*_stats"):
            (self.out / "exp" / path.name).symlink_to(path)
        check(self.decoded(folder), self.model.texts())

    def transcribe(self):
        """Transcribe the recordings."""
        language = ["--language", "eng"] if self.model.kind.task.startswith("s2t") else []
        options = ["--output_dir", self.out, "--output_format", "json", "--vad", "none", *language, *BEAM]
        self.run("transcribe", self.model.folder, *self.audio, *self.model.named, *options)
        found = [json.loads((self.out / f"{name}.json").read_text())["segments"][0] for name in TEST]
        check([[(b["text"], b["score"]) for b in one["alternatives"]] for one in found], self.model.texts())

    def translate(self):
        """Translate the texts."""
        lines = [part for text in TEST.values() for part in ("--text", text)]
        options = ["--output_dir", self.out, "--output_format", "json", *BEAM, "--maxlenratio", "2"]
        self.run("translate", self.model.folder, *self.model.named, *lines, *options)
        rows = [json.loads(line) for line in (self.out / "text.jsonl").read_text().splitlines()]
        check([[(b["text"], b["score"]) for b in row["alternatives"]] for row in rows], self.model.texts())

    def pack(self):
        """Pack, and decode with the archive."""
        self.run("pack", self.model.folder, *self.model.named, "--output", self.out / "m.zip", "--license", "mit")
        check(self.decoded(self.out / "m.zip"), self.model.texts())

    def packed(self):
        """Decode with the archive that ESPnet made, whose language model is used."""
        _, language_model = PACKED[self.model.name]
        check(self.decoded(self.model.root / "packed" / f"{self.model.name}.zip"), self.model.texts(language_model))

    def adopt(self):
        """Adopt, and decode with the result."""
        adopted = self.out / "adopted"
        self.run("adopt", self.model.folder, *self.model.named, "--output_dir", adopted)
        if self.model.kind.task == "lm":
            self.fused(adopted)
        else:
            check(self.decoded(adopted, *self.model.named), self.model.texts())

    def analyse(self):
        """Observe the heads with teacher forcing: those of an encoder see the frames that ESPnet's own has."""
        model, rate = load(self.model.folder, self.model.kind.weights)
        vocabulary, source = target_vocabulary(self.model.folder), source_vocabulary(self.model.folder)
        conditions = dict.fromkeys(known_conditions(model).names, 0)
        seen = observe_utterance(
            model, vocabulary, read_data_dir(self.data_dir), next(iter(TEST)), conditions, source, rate
        )
        assert seen, "no attention keeps weights"
        frames = len(self.model.outputs())
        for kind, observed in seen.items():
            conf = self.model.kind.conf["encoder_conf" if kind == "encoder" else "decoder_conf"]
            shape = observed.weights.shape
            assert shape[:2] == (conf["num_blocks"], conf["attention_heads"])
            assert shape[-1] == (shape[-2] if kind == "decoder" else frames)
            np.testing.assert_allclose(observed.weights.sum(-1), 1, rtol=1e-5)

    def perplexity(self):
        """The log probability of a text, by the command."""
        self.run("perplexity", self.model.folder, "--data_dir", self.data_dir, "--output_dir", self.out)
        first, *_ = (self.out / "score").read_text().splitlines()
        assert float(first.split()[1]) == pytest.approx(self.model.probability(), abs=2e-4)

    def fusion(self):
        """Decode with the language model beside a model of speech."""
        self.fused(self.model.folder)

    def fused(self, folder):
        """Decode with a language model in `folder`."""
        speech, *_ = [name for name, some in WITH_LANGUAGE_MODEL.items() if self.model.name in some]
        other = Model(self.model.age, speech)
        check(self.decoded(other.folder, "--lm", folder), other.texts(self.model.name))


def check(found, expected):
    """ESPnet's text of a hypothesis that is stopped at the greatest length can have <sos/eos>, and ours has not."""
    assert [[text for text, _ in best] for best in found] == [
        [text.removesuffix("<sos/eos>") for text, _ in best] for best in expected
    ]
    for ours, theirs in zip(found, expected, strict=True):
        assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], abs=2e-4)


def test_the_table_in_the_documentation_has_these_cells():
    page = (ROOT / "docs" / "espnet_models.md").read_text(encoding="utf-8")
    columns = ["decode", "transcribe", "pack", "adopt", "analyse"]
    assert f"| model | of | {' | '.join(columns)} |" in page
    rows = re.findall(r"^\| [^|]* \| `(\w+)` \|(.*)\|$", page.split("| model | of |")[1], flags=re.MULTILINE)
    shown = {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}
    assert list(shown) == list(KINDS)
    for name, cells in shown.items():
        other = {"decode": "fusion", "transcribe": "translate"}
        for column, cell in zip(columns, cells, strict=True):
            use = column if column in uses(name) else other.get(column)
            tested = [(age, name, use) for age in AGES if (Model(age, name), use) in CELLS]
            said = "refused" if (name, use) in REFUSED else "both"
            assert cell == (said if len(tested) == len(AGES) else "–"), (name, column)


@pytest.mark.parametrize("age", AGES)
def test_the_models_are_as_espnet_leaves_them(age):
    for name, kind in KINDS.items():
        folder = Model(age, name).folder
        assert sorted(path.name for path in folder.iterdir() if path.suffix == ".pth") == sorted(
            [kind.weights, kind.weights.replace(".pth", "_10best.pth")]
        )
        assert (folder / kind.weights).is_symlink()
        config = (folder / "config.yaml").read_text()
        assert re.search("^token_list:", config, re.MULTILINE) and not re.search("^task:", config, re.MULTILINE)


def test_no_path_of_the_machine_is_in_a_fixture():
    files = [path for path in FIXTURES.rglob("*") if path.suffix in (".yaml", ".json", ".txt")]
    named = {path for file in files for path in re.findall(r"(?<![\w./])/\w[\w./-]*", file.read_text())}
    assert all(path.startswith("/home/user/recipe") for path in named), named


@pytest.mark.recipes
@pytest.mark.parametrize(("model", "use"), CELLS, ids=lambda each: each if isinstance(each, str) else "-".join(each))
def test_the_outputs_match_espnet(model, use, data_dir, tmp_path, capfd, monkeypatch):
    if int(model.age) > int(version("espnet")):
        pytest.skip(f"ESPnet {version('espnet')} is older than the model")
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    cell = getattr(Cell(model, data_dir, tmp_path, capfd), use)
    said = REFUSED.get((model.name, use))
    if said is None:
        cell()
        return
    with pytest.raises((UserError, CommandError), match=said):
        cell()
