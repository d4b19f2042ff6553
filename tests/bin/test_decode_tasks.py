"""One model file for several languages: decoding with a language an utterance, and with one for all."""

import json
import shutil

import pytest

from espnet_diverse.bin.main import main

UTTERANCES = ["test-00", "test-01", "test-02"]
SELECTIONS = (
    *("--set", "encoder_conf.attention.selection={strategy: group, pool: 4, by: [lang, domain]}"),
    *("--set", "decoder_conf.attention.selection={strategy: subset, pool: 4, by: tgtlang}"),
)


def name_utterances(data_dir, table, names):
    utterances = [line.split()[0] for line in (data_dir / "wav.scp").read_text().splitlines()]
    lines = (f"{utterance} {names[number % len(names)]}\n" for number, utterance in enumerate(utterances))
    (data_dir / table).write_text("".join(lines))


@pytest.fixture(scope="module")
def translation(tiny_run, tmp_path_factory):
    """Speech translation by head selection after two batches: es, ar -> en, de in two domains, never es -> de."""
    root = tmp_path_factory.mktemp("translation")
    for source in (tiny_run.train_dir, tiny_run.valid_dir, tiny_run.test_dir):
        data_dir = root / source.name
        shutil.copytree(source, data_dir)
        name_utterances(data_dir, "utt2lang", ["es", "ar", "ar"])
        name_utterances(data_dir, "utt2tgtlang", ["en", "en", "de"])
        name_utterances(data_dir, "utt2domain", ["news", "talk"])
        shutil.copy(data_dir / "text", data_dir / "src_text")
    arguments = ["--config", "model/tiny", *tiny_run.config[2:], *SELECTIONS, "--set", "model_conf={ctc_weight: 0.0}"]
    arguments += ["--set", "max_epoch=1", "--task", "st", "--tokens_dir", str(tiny_run.tokens_dir)]
    arguments += ["--train_dir", str(root / "train"), "--valid_dir", str(root / "valid")]
    assert main(["stats", *arguments, "--output_dir", str(root / "stats")]) == 0
    assert main(["train", *arguments, "--stats_dir", str(root / "stats"), "--output_dir", str(root / "exp")]) == 0
    return root


@pytest.fixture
def arguments(translation):
    return [
        "--model_dir",
        str(translation / "exp"),
        "--model_file",
        "1epoch.pth",
        "--data_dir",
        str(translation / "test"),
    ]


def decoded(arguments, output_dir, *options):
    search = ["--set", "beam_size=2", "--set", "minlenratio=0.2"]
    assert main(["decode", *arguments, *search, "--output_dir", str(output_dir), *options]) == 0
    lines = (output_dir / "score").read_text().splitlines()
    assert [line.split()[0] for line in lines] == UTTERANCES
    return [float(line.split()[1]) for line in lines]


def test_a_language_an_utterance_is_as_each_language_alone(arguments, tmp_path):
    mixed = decoded(arguments, tmp_path / "mixed")
    spanish = decoded(arguments, tmp_path / "es", "--language", "es", "--target_language", "en", "--domain", "news")
    arabic = decoded(arguments, tmp_path / "ar", "--language", "ar", "--target_language", "de", "--domain", "news")
    assert mixed[0] == spanish[0] and mixed[2] == arabic[2]
    assert mixed[0] != arabic[0] and mixed[2] != spanish[2]


def test_an_unseen_pair_of_languages_is_translated(arguments, tmp_path):
    pair = decoded(arguments, tmp_path / "pair", "--language", "es", "--target_language", "de")
    assert pair[0] != decoded(arguments, tmp_path / "seen")[0]


def test_workers_decode_for_the_same_tasks(arguments, tmp_path):
    assert decoded(arguments, tmp_path / "two", "--nj", "2") == decoded(arguments, tmp_path / "one")
    numbers = json.loads((tmp_path / "two" / "decode.json").read_text())
    assert numbers["tokens"] > 0 and numbers["utterances"] == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--language", "xx"], "error: --language xx: unknown language; this model knows: ar es"),
        (["--set", "ctc_weight=0.3"], "error: ctc_weight 0.3 is not possible: the model was trained without CTC"),
    ],
)
def test_what_the_model_does_not_know_is_refused(arguments, tmp_path, capfd, options, said):
    assert main(["decode", *arguments, "--output_dir", str(tmp_path), *options]) == 1
    assert said in capfd.readouterr().err and not (tmp_path / "text").exists()


def test_an_utterance_without_its_domain_is_refused(translation, arguments, tmp_path, capfd):
    shutil.copytree(translation / "test", tmp_path / "data")
    (tmp_path / "data" / "utt2domain").write_text("test-00 news\ntest-02 talk\n")
    arguments[-1] = str(tmp_path / "data")
    assert main(["decode", *arguments, "--output_dir", str(tmp_path)]) == 1
    said = "utterance 'test-01' has no domain; add it to utt2domain of the data directory, or give --domain; this model"
    assert said in capfd.readouterr().err
    assert len(decoded(arguments, tmp_path, "--domain", "talk")) == 3


def test_what_a_model_without_tasks_is_given_has_no_effect(tiny_run, tmp_path, capfd):
    arguments = ["--model_dir", str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]
    decoded(arguments, tmp_path, "--language", "es")
    said = "WARNING: --language es has no effect: no part of this model depends on the language"
    assert capfd.readouterr().err.count(said) == 1


def test_figures_of_translation_by_tasks(arguments, tmp_path, capfd):
    assert main(["figure", *arguments, "--output_dir", str(tmp_path), "--language", "es"]) == 0
    assert len(capfd.readouterr().out.split()) == len(list(tmp_path.glob("test-00.*.png"))) == 2


def test_the_analysis_shows_whose_heads_are_whose(arguments, tmp_path):
    assert main(["analyse", *arguments, "--output_dir", str(tmp_path), "--utterances", "1"]) == 0
    heads = json.loads((tmp_path / "analysis.json").read_text())["heads"]
    assert list(heads) == [
        "encoder self-attention by language and domain",
        "encoder self-attention by language",
        "encoder self-attention by domain",
        "decoder self-attention by target language",
    ]
    assert heads["encoder self-attention by language and domain"]["values"] == [
        "ar news",
        "ar talk",
        "es news",
        "es talk",
    ]
    page = (tmp_path / "analysis.html").read_text()
    assert all(f"Heads that two of them share, {name}" in page for name in heads)
    assert len(list((tmp_path / "pictures").glob("*.sharing.png"))) == 4
