"""One tiny model, trained by the commands that a user gives, for every test that needs a trained model."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import soundfile

from espnet_diverse.registration import fast_start

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in the Makefile: with threads a forked test can wait forever
os.environ.setdefault("ESPNET_DIVERSE_KERNELS", "onednn")  # or a measurement of the machine would choose what is tested
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)
fast_start()  # before any test module imports ESPnet, which takes four times as long without it

pytest_plugins = [
    "references.converted_audio",
    "references.counted",
    "references.data_fixtures",
    "references.row_sums",
    "references.skipped",
]

RATE = 16_000
FREQUENCY = {"a": 300, "b": 600, "c": 1200, "d": 2400}
OVERRIDES = {
    "max_epoch": 2,
    "batch_type": "unsorted",
    "batch_size": 6,
    "num_workers": 0,
    "optim": "adam",
    "optim_conf.lr": 1e-3,
    "encoder_conf.output_size": 16,
    "encoder_conf.linear_units": 32,
    "encoder_conf.num_blocks": 1,
    "decoder_conf.linear_units": 32,
    "frontend_conf.n_mels": 20,
    "best_model_criterion": "[[valid, acc, max], [valid, loss, min]]",
}


class TinyRun(NamedTuple):
    """Paths of a small training run, and the arguments that made it."""

    train_dir: Path
    valid_dir: Path
    test_dir: Path
    tokens_dir: Path
    stats_dir: Path
    model_dir: Path
    config: list[str]

    def data(self) -> list[str]:
        """The arguments that name the data."""
        return [
            *("--train_dir", str(self.train_dir), "--valid_dir", str(self.valid_dir)),
            *("--tokens_dir", str(self.tokens_dir)),
        ]


@pytest.fixture(autouse=True, scope="session")
def clean_repository():
    """Tests write into folders of their own: nothing new stands beside setup.py in the end, caches aside."""
    root = Path(__file__).parent.parent
    before = {path.name for path in root.iterdir()}
    yield
    left = {path.name for path in root.iterdir()} - before
    left = {name for name in left if not name.startswith((".", "__pycache__"))}
    assert not left, f"a test has left {', '.join(sorted(left))} in {root}; let it work in tmp_path"


@pytest.fixture(autouse=True)
def no_curves(request, monkeypatch):
    """Training draws no learning curves, which takes longer than a tiny model does; test_trainer.py has them."""
    stages = sys.modules.get("espnet_diverse.training.stages")
    if stages is not None and request.path.name != "test_trainer.py":
        monkeypatch.setattr(stages, "draw_curves", lambda run: None)


def write_data_dir(path: Path, count: int, seed: int, rate: int = RATE) -> Path:
    """A data directory of `count` utterances: three letters each, a tone for each letter, and noise."""
    path.mkdir(parents=True)
    random = np.random.default_rng(seed)
    tables: dict[str, str] = {"wav.scp": "", "text": "", "utt2spk": "", "spk2utt": ""}
    time = np.arange(int(0.25 * rate)) / rate
    for index in range(count):
        name = f"{path.name}-{index:02d}"
        letters = "".join(random.choice(list(FREQUENCY), 3))
        signal = np.concatenate([0.3 * np.sin(2 * np.pi * FREQUENCY[letter] * time) for letter in letters])
        soundfile.write(path / f"{name}.wav", signal + 0.01 * random.standard_normal(signal.size), rate)
        for table, value in (
            ("wav.scp", path / f"{name}.wav"),
            ("text", letters),
            ("utt2spk", name),
            ("spk2utt", name),
        ):
            tables[table] += f"{name} {value}\n"
    for table, content in tables.items():
        (path / table).write_text(content)
    return path


def train_run(root: Path, config: list[str]) -> TinyRun:
    """Train with the sets train and valid and the vocabulary tokens of the folder `root`, and average, in root/exp."""
    from espnet_diverse.bin.main import main
    from espnet_diverse.training import stages

    sets, exp = [root / name for name in ("train", "valid", "test")], root / "exp"
    run = TinyRun(*sets, root / "tokens", exp / "stats", exp, config)
    assert main(["stats", *run.config, *run.data(), "--output_dir", str(run.stats_dir)]) == 0
    paths = ["--stats_dir", str(run.stats_dir), "--output_dir", str(run.model_dir)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "draw_curves", lambda run: None)
        assert main(["train", *run.config, *run.data(), *paths]) == 0
    assert main(["average", str(run.model_dir), "--number", "2"]) == 0
    return run


def train_tiny(root: Path, rate: int, **changes: str) -> TinyRun:
    """A run of two epochs with SDMA in every attention, averaged, on audio at `rate`."""
    from espnet_diverse.text.vocabulary import Vocabulary

    Vocabulary.train(["abcd"], "char").save(root / "tokens")
    for name, count, seed in (("train", 12, 1), ("valid", 4, 2), ("test", 3, 3)):
        write_data_dir(root / name, count, seed, rate)
    settings = (f"--set={key}={value}" for key, value in (OVERRIDES | changes).items())
    return train_run(root, ["--config", "model/tiny,attention/sdma", *settings])


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory) -> TinyRun:
    """A run of two epochs with SDMA in every attention, averaged."""
    return train_tiny(tmp_path_factory.mktemp("tiny"), RATE)


@pytest.fixture(scope="session")
def telephone_run(tmp_path_factory) -> TinyRun:
    """The same at 8 kHz: a frame is 20 ms."""
    return train_tiny(tmp_path_factory.mktemp("telephone"), 8000, **{"frontend_conf.fs": "8k"})


@pytest.fixture(scope="session")
def streaming_run(tmp_path_factory) -> Path:
    """A model of ESPnet that streams, with random weights."""
    from references.streaming import write_run

    return write_run(tmp_path_factory.mktemp("streaming") / "model")


TRANSLATION = """
frontend: embed
frontend_conf: {embed_dim: 16, positional_dropout_rate: 0.0}
encoder: diverse_transformer
encoder_conf: {output_size: 16, attention_heads: 2, linear_units: 32, num_blocks: 1, input_layer: null,
               attention: {core: sdma}}
decoder: diverse_transformer
decoder_conf: {attention_heads: 2, linear_units: 32, num_blocks: 1, attention: {core: sdma}}
model_conf: {lsm_weight: 0.1}
batch_type: tokens
batch_bins: 60
max_epoch: 2
num_workers: 0
optim: adam
optim_conf: {lr: 1.0e-3}
best_model_criterion: [[valid, acc, max]]
"""


def write_text_dir(path: Path, count: int, seed: int) -> Path:
    """A data directory of `count` sentences of one to eight letters, two languages in turns: upper case, or doubled."""
    path.mkdir(parents=True)
    random = np.random.default_rng(seed)
    tables: dict[str, str] = {"text": "", "src_text": "", "utt2lang": "", "utt2tgtlang": ""}
    for index in range(count):
        source = "".join(random.choice(list("abcd"), random.integers(1, 9)))
        target = source.upper() if index % 2 else "".join(letter * 2 for letter in source)
        row = {"src_text": source, "text": target, "utt2lang": "xx", "utt2tgtlang": ("yy", "zz")[index % 2]}
        for table, value in row.items():
            tables[table] += f"{path.name}-{index:02d} {value}\n"
    for table, content in tables.items():
        (path / table).write_text(content)
    return path


@pytest.fixture(scope="session")
def tiny_translation(tmp_path_factory) -> TinyRun:
    """A text translation run of two epochs, averaged; its vocabularies are one for each side."""
    from espnet_diverse.text.vocabulary import Vocabulary

    root = tmp_path_factory.mktemp("translation")
    Vocabulary.train(["abcdABCD"], "char").save(root / "tokens")
    Vocabulary.train(["abcd"], "char").save(root / "src_tokens")
    (root / "mt.yaml").write_text(TRANSLATION)
    for name, count, seed in (("train", 40, 1), ("valid", 6, 2), ("test", 5, 3)):
        write_text_dir(root / name, count, seed)
    task = ["--task", "mt", "--src_tokens_dir", str(root / "src_tokens")]
    return train_run(root, ["--config", str(root / "mt.yaml"), *task])


AUTOENCODER = """
decoder: vae
decoder_conf: {latent: {size: 6, vectors: 2}, cross_attention: {core: sdma}}
model: vae
model_conf: {lsm_weight: 0.0, bound: {kl_updates: 0.5, schedule: cyclical, free_bits: 0.1, word_dropout: 0.2}}
best_model_criterion: [[valid, acc, max], [valid, loss, min]]
"""


@pytest.fixture(scope="session")
def tiny_autoencoder(tiny_translation, tmp_path_factory) -> TinyRun:
    """A variational autoencoder of the sentences of `tiny_translation`, of which no data directory has a source."""
    root = tmp_path_factory.mktemp("autoencoder")
    for folder in ("train", "valid", "test", "tokens"):
        shutil.copytree(tiny_translation.train_dir.parent / folder, root / folder)
        (root / folder / "src_text").unlink(missing_ok=True)
    (root / "mt.yaml").write_text(TRANSLATION)
    (root / "vae.yaml").write_text(AUTOENCODER)
    return train_run(root, ["--config", f"{root / 'mt.yaml'},{root / 'vae.yaml'}", "--task", "mt"])


CLASSIFICATION = """
classifier_conf: {by: tgtlang, embed_dim: 16, hidden_size: 8, pooling_width: 8, heads: 3, linear_units: 16,
                  dropout_rate: 0.0, frobenius: 0.01}
batch_type: sorted
batch_size: 8
max_epoch: 2
num_iters_per_epoch: 20
num_workers: 0
optim: adam
optim_conf: {lr: 1.0e-2}
best_model_criterion: [[valid, acc, max]]
"""


@pytest.fixture(scope="session")
def tiny_classifier(tiny_translation, tmp_path_factory) -> TinyRun:
    """A run that learns the target language of `tiny_translation`, upper case or doubled letters; its heads repel."""
    root = tmp_path_factory.mktemp("classifier")
    for folder in ("train", "valid", "test", "tokens"):
        shutil.copytree(tiny_translation.train_dir.parent / folder, root / folder)
    (root / "cls.yaml").write_text(CLASSIFICATION)
    return train_run(root, ["--config", f"{root / 'cls.yaml'},repulsion/svgd", "--task", "cls"])


@pytest.fixture
def drawn(monkeypatch):
    """The figures of matplotlib that were saved, in order."""
    from matplotlib.figure import Figure

    figures = []
    save = Figure.savefig

    def keep(figure, *args, **options):
        figures.append(figure)
        save(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory) -> Path:
    """A folder with a BERT of random weights, 8 wide, which reads 18 word pieces of the letters a to d."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("bert")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcd", *(f"##{letter}" for letter in "abcd")]
    BertTokenizer(vocab={piece: index for index, piece in enumerate(pieces)}).save_pretrained(folder)
    size = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    # Larger weights than BERT begins with, so that neighbours count.
    config = BertConfig(vocab_size=len(pieces), max_position_embeddings=20, initializer_range=0.5, **size)
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def scored_run(tiny_run, tmp_path):
    """A run with scores by language."""
    folder = tmp_path / "group4"
    (folder / "decode" / "test").mkdir(parents=True)
    for name in ("config.yaml", "feats_stats.npz"):
        shutil.copy(tiny_run.model_dir / name, folder)
    wer = {
        "overall": {"score": 26.0, "interval": [24.5, 27.5]},
        "rows": {"ar": {"score": 30.0}, "de": {"score": 20.0}},
        "averages": {"AVG": {"score": 25.0}},
    }
    cer = {"overall": {"score": 9.0}, "rows": {}, "averages": {}}
    (folder / "decode" / "test" / "score.json").write_text(json.dumps({"metrics": {"wer": wer, "cer": cer}}))
    (folder / "decode" / "test" / "decode.json").write_text('{"tokens_per_second": 41.7}')
    return folder
