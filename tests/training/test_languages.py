"""Languages travel from the data directory through ESPnet's data loading into the model, and translation trains."""

import shutil

import pytest
import torch
import yaml

from espnet_diverse.bin.main import main
from espnet_diverse.data.tables import read_table
from espnet_diverse.nets.models import Diverse
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.scope import scope
from espnet_diverse.text.vocabulary import Vocabulary

QUICK = ("--set", "max_epoch=1", "--set", "batch_size=4")
GROUP = "{strategy: group, pool: 4}"
BY_LANGUAGE = (
    *("--set", f"encoder_conf.attention.selection={GROUP}"),
    *("--set", "decoder_conf.attention.selection={strategy: group, pool: 4, by: tgtlang}"),
    *("--set", "decoder_conf.adapter={by: lang, bottleneck: 4, freeze_base: false}"),
    *("--set", "decoder_conf.start_tag={by: tgtlang}"),
)


def name_utterances(data_dir, table, names):
    """Give the utterances of a data directory names in turns."""
    utterances = [line.split()[0] for line in (data_dir / "wav.scp").read_text().splitlines()]
    lines = (f"{utterance} {names[number % len(names)]}\n" for number, utterance in enumerate(utterances))
    (data_dir / table).write_text("".join(lines))


@pytest.fixture
def data(tiny_run, tmp_path):
    """Copies of the tiny data in two languages, as the arguments that name them; the folder is `tmp_path`."""
    for phase, source in (("train", tiny_run.train_dir), ("valid", tiny_run.valid_dir)):
        shutil.copytree(source, tmp_path / phase)
        name_utterances(tmp_path / phase, "utt2lang", ["es", "ar"])
    return [
        *("--train_dir", str(tmp_path / "train"), "--valid_dir", str(tmp_path / "valid")),
        *("--tokens_dir", str(tiny_run.tokens_dir)),
    ]


@pytest.fixture
def plain(tiny_run):
    """The configuration of the tiny run, with softmax."""
    return ["--config", "model/tiny", *tiny_run.config[2:]]


def train(arguments, tmp_path, *options):
    """Collect statistics and train; `options` are for training alone."""
    assert main(["stats", *arguments, "--output_dir", str(tmp_path / "stats")]) == 0
    paths = ["--stats_dir", str(tmp_path / "stats"), "--output_dir", str(tmp_path / "exp")]
    assert main(["train", *arguments, *paths, *options]) == 0
    return yaml.safe_load((tmp_path / "exp" / "config.yaml").read_text())


def test_languages_of_utterances_reach_the_model_and_train_their_parts(plain, data, tiny_run, tmp_path, monkeypatch):
    vocabulary, languages, seen = Vocabulary.load(tiny_run.tokens_dir), {}, []
    for folder in (tmp_path / "train", tmp_path / "valid"):
        texts, language = read_table(folder / "text"), read_table(folder / "utt2lang")
        languages |= {tuple(vocabulary.encode(texts[name])): ["ar", "es"].index(language[name]) for name in texts}
    forward = Diverse.forward

    def spy(self, *args, **kwargs):
        texts, lengths, lang, tgtlang = (kwargs[name].tolist() for name in ("text", "text_lengths", "lang", "tgtlang"))
        seen.extend(zip(map(lambda text, length: tuple(text[:length]), texts, lengths), lang, tgtlang, strict=True))
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(Diverse, "forward", spy)
    config = train([*plain, *data, *BY_LANGUAGE, *QUICK], tmp_path)
    assert config["model_conf"]["conditions"] == {"lang": ["ar", "es"], "tgtlang": ["ar", "es"]}
    assert config["encoder_conf"]["attention"]["selection"]["conditions"] == {"lang": ["ar", "es"]}
    assert config["decoder_conf"]["start_tag"]["conditions"] == {"tgtlang": ["ar", "es"]}
    assert len(seen) == len(languages) == 12 + 4
    assert all(lang == tgtlang == [languages[text]] for text, lang, tgtlang in seen)
    model, args = load_model(tmp_path / "exp", "1epoch.pth")
    up = model.decoder.decoders[0].adapter.up_weight
    assert up.abs().amax((1, 2)).gt(0).all() and not torch.equal(up[0], up[1])
    assert args.task == "asr"


def test_logits_of_a_resumed_run_have_moved_from_the_start_of_the_first(plain, data, tmp_path):
    """With a learning rate of almost 0 they have not moved; the second process has drawn the same start."""
    selection = "{strategy: group, pool: 4, logits_learning_rate_scale: 16, noise_steps: 0.5}"
    arguments = [*plain, *data, *QUICK, "--set", f"encoder_conf.attention.selection={selection}"]
    train([*arguments, "--set", "optim_conf.lr=1e-10"], tmp_path)
    train([*arguments, "--set=optim_conf.lr=1e-10", "--set=max_epoch=2"], tmp_path, "--allow_changed", "max_epoch")
    stats = checkpoint.load(tmp_path / "exp" / "checkpoint.pth")["reporter"]["stats"]
    assert [stats[epoch]["train"]["logit_movement"] for epoch in (1, 2)] == [0, 0]
    assert stats[1]["train"]["logit_gap"] > 0
    first, last = (checkpoint.load(tmp_path / "exp" / f"{epoch}epoch.pth") for epoch in (1, 2))
    logits = "encoder.encoders.0.self_attn.selection.logits_lang"
    assert torch.equal(first[logits], last[logits])


def test_the_loss_depends_on_the_language(plain, data, tmp_path):
    train([*plain, *data, *BY_LANGUAGE, *QUICK, "--set", "max_epoch=2"], tmp_path)
    model, _ = load_model(tmp_path / "exp", "2epoch.pth")
    model.eval()
    text = torch.tensor([[2, 3, 4], [3, 2, 5]])
    generator = torch.Generator().manual_seed(0)
    batch = {"speech": torch.randn(2, 8000, generator=generator), "speech_lengths": torch.tensor([8000, 8000])}
    batch |= {"text": text, "text_lengths": torch.tensor([3, 3])}

    def loss(*languages):
        ids = torch.tensor(languages)[:, None]
        lengths = torch.ones(2, dtype=torch.long)
        with torch.no_grad():
            return model(**batch, lang=ids, lang_lengths=lengths, tgtlang=ids, tgtlang_lengths=lengths)[0]

    both, other, mixed = loss(0, 0), loss(1, 1), loss(0, 1)
    assert len({both.item(), other.item(), mixed.item()}) == 3
    with scope({"lang": torch.tensor([0]), "tgtlang": torch.tensor([0])}), torch.no_grad():
        assert model(**batch)[0] == both  # without ids of its own a model takes those of the scope around it


@pytest.mark.parametrize("asr_weight", [0.0, 0.3])
def test_translation_trains_from_a_trained_encoder_and_stands_alone(tiny_run, data, tmp_path, asr_weight):
    for phase in ("train", "valid"):
        shutil.copy(tmp_path / phase / "text", tmp_path / phase / "src_text")
        name_utterances(tmp_path / phase, "utt2tgtlang", ["en", "de"])
    Vocabulary.train(["a b", "cd"], "char").save(tmp_path / "source")
    losses = f"{{ctc_weight: 0.2, asr_weight: {asr_weight}, mtlalpha: 1.0}}"
    arguments = [*tiny_run.config, *data, *QUICK, "--task", "st", "--src_tokens_dir", str(tmp_path / "source")]
    arguments += ["--set", f"model_conf={losses}", "--set", "decoder_conf.start_tag={by: tgtlang}"]
    arguments += ["--set", "freeze_param=[encoder]", "--set", "batch_type=numel", "--set", "batch_bins=200000"]
    initial = f"{tiny_run.model_dir}/valid.acc.ave.pth:encoder:encoder"
    config = train(arguments, tmp_path, "--init_param", initial)
    shutil.rmtree(tmp_path / "source")
    exp = (tmp_path / "exp").rename(tmp_path / "moved")
    model, args = load_model(exp, "1epoch.pth", task="st")
    trained = checkpoint.load(tiny_run.model_dir / "valid.acc.ave.pth")
    for name, tensor in model.encoder.state_dict().items():
        if "updates" not in name:
            assert torch.equal(tensor, trained[f"encoder.{name}"]), name
    assert (args.task, config["src_token_type"], len(config["src_token_list"])) == ("st", "char", 8)
    assert config["model_conf"]["conditions"] == {"tgtlang": ["de", "en"]}
    assert model.st_mtlalpha == 0.2 and hasattr(model, "ctc") == (asr_weight > 0)
    shapes = [line.rpartition("/")[2] for line in config["train_shape_file"]]
    assert shapes == ["speech_shape", "text_shape.char", "src_text_shape.char"][: 3 if asr_weight else 2]


def test_a_language_that_training_has_not_is_refused(plain, data, tmp_path, capfd):
    name_utterances(tmp_path / "valid", "utt2lang", ["es", "ru"])
    assert main(["stats", *plain, *data, *BY_LANGUAGE, "--output_dir", str(tmp_path / "stats")]) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.endswith("valid-01: lang 'ru' is unknown; known: ar es")
    assert not (tmp_path / "stats").exists()


def test_an_utterance_without_language_is_refused(plain, data, tmp_path, capfd):
    lines = (tmp_path / "train" / "utt2lang").read_text().splitlines(keepends=True)
    (tmp_path / "train" / "utt2lang").write_text("".join(lines[:3] + lines[4:]))
    assert main(["stats", *plain, *data, *BY_LANGUAGE, "--output_dir", str(tmp_path / "stats")]) == 1
    assert "utt2lang: train-03: has no line in this table; add one" in capfd.readouterr().err


def test_transcripts_that_a_loss_needs_must_be_there(plain, data, tmp_path, capfd):
    arguments = [*plain, *data, "--task", "st", "--set", "model_conf={asr_weight: 0.3, mtlalpha: 1.0}"]
    assert main(["stats", *arguments, "--output_dir", str(tmp_path / "stats")]) == 1
    assert "train/src_text: no such file; espnet-diverse prepare writes it" in capfd.readouterr().err


def test_a_model_of_espnet_has_no_languages(plain, data, tmp_path, capfd):
    arguments = [*plain, *data, *BY_LANGUAGE, "--set", "model=espnet"]
    assert main(["stats", *arguments, "--output_dir", str(tmp_path / "stats")]) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert "--set model=espnet: model 'espnet' does not support lang, on which parts of it depend; set model" in error


def test_balanced_batches_train(plain, data, tmp_path):
    sampling = "sampling={by: lang, temperature: 5, batches: single}"
    train([*plain, *data, *QUICK, "--set", sampling], tmp_path)
    log = (tmp_path / "exp" / "train.log").read_text()
    assert "BalancedSampler(N-batch=3, ar 0.500, es 0.500)" in log
