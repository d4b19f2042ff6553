"""Runs of an experiment side by side; the two here are the same run."""

import argparse
import json
import math
import shutil
from pathlib import Path

import pytest
import yaml
from references.language_models import TRAINED

from espnet_diverse.bin.main import main


def test_runs_are_compared_with_the_first(tiny_translation, tmp_path, capsys):
    import trained_runs

    for number, name in enumerate(("mine_softmax_1", "mine_window_of_4_1")):
        shutil.copytree(tiny_translation.model_dir, tmp_path / name)
        (tmp_path / name / "decode" / "test").mkdir(parents=True)
        summary = {"metrics": {"bleu": {"overall": {"score": 20.25 + number}}}}
        (tmp_path / name / "decode" / "test" / "score.json").write_text(json.dumps(summary))
    runs = [str(path) for path in sorted(tmp_path.iterdir())]
    options = ["--set", "test", "--data_dir", str(tiny_translation.test_dir.parent), "--metric", "bleu"]
    options += ["--batches", "2", "--utterances", "3", "--beam_size", "2", "--repeats", "1"]
    trained_runs.main([*runs, *options, "--plot", str(tmp_path / "runs.png")])
    *_, first, second = capsys.readouterr().out.splitlines()
    first, second = ([cell.strip() for cell in row.strip("|").split("|")] for row in (first, second))
    assert first[:2] == ["softmax", "20.2"] and second[:2] == ["window_of_4", "21.2"]
    assert first[2:5] == second[2:5] and float(first[2]) > 0 and first[4].endswith(" M")
    assert first[5:] == ["1.00"] * 3 and 0.1 < float(second[5]) < 10 and second[6] == "1.00"
    assert (tmp_path / "runs.png").stat().st_size > 5000


def test_repulsion_is_part_of_a_step_and_slots_have_a_column(tiny_translation, tmp_path, monkeypatch, capsys):
    import trained_runs

    from espnet_diverse.training.repulsion import Repulsion

    repelled, slots = [], {"a_none": math.nan, "a_svgd": 0.25}
    monkeypatch.setattr(Repulsion, "__call__", lambda self, step: repelled.append(step))
    monkeypatch.setattr(trained_runs, "_diversity", lambda folder: slots[folder.name])
    for name, section in (("a_none", None), ("a_svgd", {"method": "svgd", "layers": "first"})):
        shutil.copytree(tiny_translation.model_dir, tmp_path / name)
        config = yaml.safe_load((tmp_path / name / "config.yaml").read_text())
        (tmp_path / name / "config.yaml").write_text(yaml.safe_dump(config | {"repulsion": section}))
        (tmp_path / name / "decode" / "test").mkdir(parents=True)
        (tmp_path / name / "decode" / "test" / "score.json").write_text(
            json.dumps({"metrics": {"bleu": {"overall": {"score": 1.0}}}})
        )
    options = ["--set", "test", "--data_dir", str(tiny_translation.test_dir.parent), "--metric", "bleu"]
    options += ["--batches", "1", "--utterances", "2", "--beam_size", "1", "--repeats", "1"]
    trained_runs.main([str(tmp_path / "a_none"), str(tmp_path / "a_svgd"), *options])
    *_, head, _, none, svgd = capsys.readouterr().out.splitlines()
    assert "| diversity of slots |" in head
    assert [row.split("|")[5].strip() for row in (none, svgd)] == ["", "0.25"]
    assert repelled


def test_language_models_are_compared_by_perplexity_and_slots(tiny_translation, tmp_path, capsys):
    import trained_runs

    data = tiny_translation.test_dir.parent
    (tmp_path / "lm.yaml").write_text(TRAINED)
    arguments = ["--config", str(tmp_path / "lm.yaml"), "--task", "lm", *tiny_translation.data()]
    assert main(["stats", *arguments, "--output_dir", str(tmp_path / "stats")]) == 0
    for name, kind in (("a_none", "null"), ("a_xl", "{kind: xl, segment: 4, slots: 4}")):
        paths = ["--stats_dir", str(tmp_path / "stats"), "--output_dir", str(tmp_path / name)]
        assert main(["train", *arguments, *paths, "--set", "max_epoch=1", "--set", f"lm_conf.memory={kind}"]) == 0
        assert main(["average", "--model_dir", str(tmp_path / name), "--metric", "valid.loss", "--number", "1"]) == 0
        scored = ["--data_dir", str(data / "test"), "--output_dir", str(tmp_path / name / "decode" / "test")]
        assert main(["perplexity", "--model_dir", str(tmp_path / name), *scored]) == 0
    capsys.readouterr()
    options = ["--task", "lm", "--set", "test", "--data_dir", str(data), "--batches", "1", "--repeats", "1"]
    trained_runs.main([str(tmp_path / "a_none"), str(tmp_path / "a_xl"), *options])
    *_, head, _, none, xl = capsys.readouterr().out.splitlines()
    assert head == "| run | score | diversity of slots | parameters | step | step peak | decoding |"
    none, xl = ([cell.strip() for cell in row.strip("|").split("|")] for row in (none, xl))
    score = json.loads((tmp_path / "a_xl" / "decode" / "test" / "perplexity.json").read_text())["word_perplexity"]
    assert xl[:2] == ["xl", f"{score:.1f}"] and 0 < float(xl[2]) < 9
    assert none[2] == "" and none[4:] == ["1.00"] * 3 and all(0.05 < float(cell) < 20 for cell in xl[4:])


def test_speech_is_decoded_from_segments_whatever_texts_stand_beside_it(tiny_run, tmp_path, monkeypatch):
    """Data for speech translation have src_text too."""
    import trained_runs

    from espnet_diverse.decoding.predictor import Predictor

    folder = shutil.copytree(tiny_run.test_dir, tmp_path / "test")
    names = [line.split()[0] for line in (folder / "text").read_text().splitlines()]
    (folder / "src_text").write_text("".join(f"{name} abc\n" for name in names))
    (folder / "segments").write_text(
        "".join(f"{name} {names[0]} 0.0 {0.5 + 0.05 * n}\n" for n, name in enumerate(names))
    )
    decoded = []
    monkeypatch.setattr(Predictor, "batch", lambda self, sources, conditions: decoded.extend(sources))
    args = argparse.Namespace(data_dir=tmp_path, set="test", beam_size=1, utterances=len(names))
    trained_runs._decoding(tiny_run.model_dir, args)()
    frames = sorted(len(one) for one in decoded)
    assert len(set(frames)) == len(names) == 3 and frames[-1] < 75


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a_x_1", "a_y_1"], ["x", "y"]),
        (["a_sma", "a_sdma"], ["sma", "sdma"]),
        (["a_x", "a_x_0.1"], ["x", "x_0.1"]),
        (["a_b"], ["a_b"]),
    ],
)
def test_names_are_without_what_all_have(names, expected):
    import trained_runs

    assert trained_runs.short_names(names) == expected


def test_heads_are_compared_over_the_attentions_that_all_runs_keep(monkeypatch, capsys):
    """A mean that leaves the encoder out is no smaller for it than one with the encoder."""
    import trained_runs

    kept = {"plain": {"encoder": (0.9, 9), "decoder": (0.5, 1), "cross": (0.7, 3)}, "luna": {}}
    kept["xl"] = {kind: kept["plain"][kind] for kind in ("decoder", "cross")}
    monkeypatch.setattr(trained_runs, "_redundancy", lambda folder, args: kept[folder.name])
    monkeypatch.setattr(trained_runs, "_diversity", lambda folder: math.nan)
    args = argparse.Namespace(task="mt", runs=[Path(name) for name in ("plain", "xl", "luna")])
    found = {name: list(measures.values())[:2] for name, measures in trained_runs._measures(args).items()}
    assert found["plain"] == found["xl"] == pytest.approx([0.6, 2]) and all(map(math.isnan, found["luna"]))
    said = "LR and distance: means over decoder self-attention and decoder cross-attention."
    assert said in capsys.readouterr().out
