"""Options of run.sh: stages, names, data, tokens, training, decoding and scoring."""

import re
import shlex

import pytest
from references.plans import commands, value
from references.recipes import ROOT, STAGES, bash

from espnet_diverse.scoring.build import METRICS


def test_dry_run_prints_the_plan_and_makes_nothing(recipe):
    before = sorted(recipe.folder.rglob("*"))
    plan = commands(result := recipe("--corpus", "synthetic", "--dry_run"))
    assert [stage for stage, _ in plan] == [
        *STAGES[:3],
        "train",
        "train",
        "decode",
        "decode",
        "score",
        "score",
        "score",
    ]
    assert {argv[0] for _, argv in plan} == {"espnet-diverse"}
    names = ["prepare", "tokens", "stats", "train", "average", "decode", "decode", "score", "score", "figure"]
    assert [argv[1] for _, argv in plan] == names
    assert result.stdout.endswith("options: --cache_dir exp/.stamps --generated --dry_run\n")
    assert "experiment exp/synthetic_small_sdma_demo, data data/synthetic" in result.stderr
    assert sorted(recipe.folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--stage", "3", "--stop_stage", "4"], ["stats", "train", "average"]),
        (["--stage", "decode", "--stop_stage", "5", "--test_sets", "test"], ["decode"]),
        (["--stop_stage", "tokens"], ["prepare", "tokens"]),
    ],
)
def test_stages_by_name_and_number(recipe, options, expected):
    assert [argv[1] for _, argv in commands(recipe(*options))] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nope", "1"], "unknown option '--nope'; known: --stage --stop_stage --corpus_dir .* --dry_run"),
        (["nj", "1"], "unknown option 'nj'; known: --stage"),
        (["--PATH", "x"], "unknown option '--PATH'; known: --stage"),
        (["--nj"], "option --nj has no value; write --nj VALUE; known: --stage"),
        (["--nj", "--ngpu", "1"], "option --nj has no value"),
        (["--dry_run", "maybe"], "unknown option 'maybe'"),
        (["--stage", "tune"], "unknown stage 'tune'; known: data tokens stats train decode score, or 1 to 6"),
        (["--stage", "7"], "unknown stage '7'"),
        (["--stage", "4", "--stop_stage", "data"], "--stage 4 comes after --stop_stage data; swap them"),
        (["--corpus", "synthetic", "--corpus_dir", "x"], "--corpus and --corpus_dir exclude each other; give one"),
        (["--tag", "a\nb"], "there is a line break in '"),
        (["--ngpu", "-1"], "--ngpu '-1' is not a number of GPUs; give 0, 1 and so on"),
        (["--ngpu", "08"], "--ngpu '08' is not a number of GPUs"),
        (["--num_nodes", "0"], "--num_nodes '0' is not a number of machines; give 1, 2 and so on"),
    ],
)
def test_a_faulty_option_ends_with_one_message(recipe, options, message):
    result = recipe(*options)
    assert result.returncode == 1
    assert re.search(message, result.stderr), result.stderr
    assert result.stdout == "" and result.stderr.count("error: ") == 1


def test_help_lists_every_option_with_its_default(recipe):
    result = recipe("--help")
    assert result.returncode == 0
    assert "--test_sets       data sets to decode and score (default: dev test)\n" in result.stdout
    assert len(re.findall(r"^  --\w+ +\S", result.stdout, flags=re.MULTILINE)) >= 20
    assert "such as '0.9 1.0 1.1' (default: 1.0 for the synthetic corpus, else 0.9 1.0 1.1)\n" in result.stdout
    assert re.search(r"--config .*: model/small\S+ for the synthetic corpus, else \S+conf/train.yaml\)", result.stdout)
    assert "--corpus_size     size of the synthetic corpus: demo or tiny (default: demo)\n" in result.stdout
    assert recipe("--seed", "3", "-h").stdout == result.stdout


def test_defaults_are_printed_for_programs(recipe):
    """Every option that the help has, with the defaults of the corpus, and the values that are given."""
    lines = recipe("--defaults", "--seed", "3", "--speed_perturb", "1 2").stdout.splitlines()
    values = dict(line.split("\t") for line in lines)
    shown = re.findall(r"^  --(\w+) ", recipe("--help").stdout, flags=re.MULTILINE)
    assert [*values, "defaults"] == shown
    assert (values["seed"], values["speed_perturb"], values["test_sets"], values["set"]) == ("3", "1 2", "dev test", "")
    assert values["config"].startswith("model/transformer_6x6,") and "\nconfig\tmodel/small," in (
        recipe("--corpus", "synthetic", "--defaults").stdout
    )


def test_help_shows_the_defaults_of_the_recipe():
    assert f" {' '.join(METRICS)} (default: cer wer)\n" in bash(ROOT / "egs/own/asr1/run.sh", "--help").stdout
    assert "bpe or unigram tokens (default: 8000)\n" in bash(ROOT / "egs/mtedx/asr1/run.sh", "--help").stdout


@pytest.mark.parametrize(
    "name", ["plain", "two words", "it's", 'a"b', "$HOME `id` $(id)", "a&b;c|d", "星 *?", "#x", "\\"]
)
def test_values_arrive_as_they_were_given(recipe, name):
    plan = commands(recipe("--corpus_dir", f"/{name}", "--tag", name, "--set", f"a.b={name}"))
    argv = {command: argv for _, (_, command, *argv) in plan}
    assert f"/{name}" in argv["prepare"]
    assert value(argv["train"], "--set") == f"a.b={name}"
    assert value(argv["train"], "--output_dir") == f"exp/{name}"


def test_the_corpus_folder_is_relative_to_the_caller(recipe, tmp_path):
    _, prepare = commands(recipe("--corpus_dir", "my data", "--stop_stage", "1", cwd=tmp_path))[0]
    assert str(tmp_path / "my data") in prepare


def test_fragments_of_several_options_are_joined_in_order(recipe):
    plan = commands(recipe("--corpus", "synthetic", "--config", "model/small", "--config", "attention/sma,x.yaml"))
    (train,) = [argv for _, (_, command, *argv) in plan if command == "train"]
    assert value(train, "--config") == "model/small,attention/sma,x.yaml"


def test_set_may_be_repeated_and_the_seed_goes_to_training_only(recipe):
    plan = commands(
        recipe("--set", "max_epoch=1", "--set", "optim_conf={lr: 1}", "--seed", "3", "--corpus", "synthetic")
    )
    argv = {command: argv for _, (_, command, *argv) in plan}
    given = [word for before, word in zip(argv["train"], argv["train"][1:], strict=False) if before == "--set"]
    assert given == ["max_epoch=1", "optim_conf={lr: 1}", "seed=3"]
    assert "seed=3" not in argv["stats"]
    tag = "exp/synthetic_small_sdma_demo_max_epoch=1_optim_conf=lr1_seed3"
    assert value(argv["train"], "--output_dir") == tag


def test_translation_has_its_own_vocabulary_and_begins_with_a_trained_encoder(recipe):
    initial = "../asr1/exp/x/valid.acc.ave.pth:encoder:encoder"
    options = ["--task", "st", "--src_token_type", "bpe", "--src_vocab_size", "99", "--init_param", initial]
    plan = commands(recipe(*options, "--corpus", "synthetic", "--metric", "bleu chrf", "--score_by", "utt2lang"))
    _, source = [argv for _, (_, command, *argv) in plan if command == "tokens"]
    assert value(source, "--text") == "data/synthetic/train/src_text" and value(source, "--vocab_size") == "99"
    argv = {command: argv for _, (_, command, *argv) in plan}
    for command in ("stats", "train"):
        assert value(argv[command], "--task") == "st"
        assert value(argv[command], "--src_tokens_dir") == value(source, "--output_dir") == "data/synthetic/src_tokens"
    assert value(argv["train"], "--init_param") == value(argv["stats"], "--init_param") == initial
    assert value(argv["train"], "--output_dir").endswith("_demo_init")
    assert shlex.join(argv["score"]).find("--metric bleu chrf --by utt2lang --results") > 0


def test_more_options_reach_preparation_and_scoring(recipe):
    options = ["--prepare_options", "--languages ar de", "--score_options", "--normalise wer --zero_shot pt-es"]
    argv = {command: argv for _, (_, command, *argv) in commands(recipe(*options, "--tag", "t"))}
    assert argv["prepare"][-3:] == ["--languages", "ar", "de"]
    assert value(argv["score"], "--normalise") == "wer" and value(argv["score"], "--zero_shot") == "pt-es"


def test_data_comes_from_one_source(recipe):
    for options, source in (
        ([], ["--download"]),
        (["--corpus", "synthetic"], ["--corpus", "synthetic"]),
        (["--corpus_dir", "/x"], ["/x"]),
    ):
        _, argv = commands(recipe(*options, "--stop_stage", "1"))[0]
        assert [word for word in argv if word in ("--download", "--corpus", "/x")] == source[:1]
        assert shlex.join(source) in shlex.join(argv)


def test_the_environment_does_not_set_options(recipe):
    _, argv = commands(recipe("--stop_stage", "1", tag="intruder", nj="77", corpus="intruder"))[0]
    assert value(argv, "--nj") != "77" and "intruder" not in argv


@pytest.mark.parametrize(("ngpu", "device"), [("0", "cpu"), ("1", "cuda"), ("2", "cuda")])
def test_ngpu_sets_training_gpus_and_the_decoding_device(recipe, ngpu, device):
    plan = [argv for _, argv in commands(recipe("--ngpu", ngpu, "--dry_run"))]
    assert [value(argv, "--ngpu") for argv in plan if argv[1] == "train"] == [ngpu]
    assert {value(argv, "--device") for argv in plan if argv[1] == "decode"} == {device}


def test_exit_code_and_plan_of_the_run_are_kept(recipe):
    (recipe.folder / "exp" / "mine").mkdir(parents=True)
    assert recipe("--tag", "mine", CODE="2").returncode == 2
    kept = (recipe.folder / "exp" / "mine" / "plan.tsv").read_text()
    assert len(kept.splitlines()) == 10


def test_a_recipe_may_define_a_stage_again_and_note_other_programs(recipe):
    script = recipe.folder / "run.sh"
    again = "stage_score() { note local/my_score.sh \"$exp_dir\" 'x y'; }\nrun_stages\n"
    script.write_text(script.read_text().replace("\nrun_stages\n", f"\n{again}"))
    assert commands(recipe("--tag", "t", "--stage", "6")) == [("score", ["local/my_score.sh", "exp/t", "x y"])]


def test_the_command_must_be_installed(recipe, tmp_path):
    (tmp_path / ".venv" / "bin" / "espnet-diverse").unlink()
    result = recipe()
    assert result.returncode == 1
    assert "espnet-diverse is not installed" in result.stderr


def test_text_translation_has_one_vocabulary_of_both_sides_unless_it_has_two(recipe):
    plan = commands(recipe("--task", "mt", "--stage", "tokens", "--tag", "x"))
    (one,) = [argv for stage, argv in plan if stage == "tokens"]
    assert one[one.index("--text") + 1 : one.index("--output_dir")] == ["data/train/text", "data/train/src_text"]
    assert not any(argv[1] == "figure" for _, argv in plan)
    assert all(value(argv, "--task") == "mt" for _, argv in plan if argv[1] in ("stats", "train"))
    plan = commands(recipe("--task", "mt", "--src_token_type", "char", "--stage", "tokens", "--tag", "x"))
    texts = [value(argv, "--text") for stage, argv in plan if stage == "tokens"]
    assert texts == ["data/train/text", "data/train/src_text"]


@pytest.mark.parametrize(("task", "command"), [("lm", "perplexity"), ("cls", "classify")])
def test_models_without_a_search_are_scored_where_they_run(recipe, task, command):
    plan = commands(recipe("--task", task, "--average_metric", "valid.loss", "--tag", "x", "--stage", "decode"))
    assert [(stage, argv[1]) for stage, argv in plan] == [("decode", command)] * 2
    assert {"valid.loss.ave.pth", "exp/x/RESULTS.md"} <= set(plan[0][1])
