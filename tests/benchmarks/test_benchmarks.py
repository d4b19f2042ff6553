"""Each benchmark: its options, and one run at a tiny size whose table is complete. Times are not judged."""

import importlib
import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import soundfile
import torch
import yaml
from references.streaming import RATE, tones, write_run
from references.whisper import write_whisper

from espnet_diverse.data.kaldi import read_data_dir
from espnet_diverse.runs.tasks import TASKS

FOLDER = Path(__file__).parents[2] / "benchmarks"
HELPERS = {"ctranslate2_model", "ggml_whisper", "growth_data", "measuring", "modules", "results", "training_step"}
"""Modules that benchmarks share, which are no programs."""
BENCHMARKS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in HELPERS)


def pieces(*words):
    """Name, module and options of each benchmark of cpu.sh or gpu.sh."""
    listed = subprocess.run(
        ["bash", FOLDER / words[0], "--list", *words[1:]], capture_output=True, text=True, check=True
    )
    for line in listed.stdout.splitlines():
        name, _, command = line.partition(": ")
        _, path, *options = shlex.split(command)
        yield name, Path(path).stem, options


def rows_of(printed):
    """Cells of the lines of the tables in Markdown."""
    lines = [line for line in printed.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_help_is_printed(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        importlib.import_module(name).main(["--help"])
    assert "usage: " in capsys.readouterr().out


@pytest.mark.parametrize("script", ["cpu.sh", "gpu.sh"])
def test_benchmarks_accept_the_options_of_their_pieces(script, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    found = list(pieces(script))
    assert len(found) >= 8
    for name, module, options in found:
        benchmark = importlib.import_module(module)
        read = getattr(benchmark, "arguments", None) or benchmark._arguments
        assert read(options).output == Path(f"DIR/{name}.json"), name


@pytest.mark.parametrize(("name", "module", "options"), pieces("cpu.sh", "--tiny"), ids=lambda value: str(value)[:15])
@pytest.mark.recipes
def test_a_piece_of_the_cpu_runs_at_a_tiny_size(name, module, options, tmp_path, capsys):
    options = [word.replace("DIR/", f"{tmp_path}/") for word in options]
    options += ["--stages", "validate", "tokens"] if name == "growth" else []
    importlib.import_module(module).main(options)
    content = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    if name == "growth":
        assert all(one["done"] and one["peak"] > 1e7 and one["seconds"] > 0 for one in content)
    else:
        measured = [one for row in content["rows"] for one in row["measured"].values()]
        assert measured and all(one["seconds"] and min(one["seconds"]) > 0 for one in measured)
    rows = rows_of(capsys.readouterr().out)
    assert len(rows) > 1 and all(rows[1])
    if module == "decoding":  # the searches agree in texts and scores
        found, _, pairs = rows[-1][-2].partition("/")
        assert found == pairs > "0" and float(rows[-1][-1]) < 1e-4


@pytest.mark.recipes
def test_ratios_are_compared_with_an_earlier_file(tmp_path, capsys):
    options = ["--units", "4", "--heads", "3", "--sentences", "2", "--time", "5", "--repeats", "1"]
    for name in ("--output", "--compare"):
        importlib.import_module("classification").main([*options, name, str(tmp_path / "then.json")])
    *_, head, row = rows_of(capsys.readouterr().out)
    assert head == ["case", "frobenius", "svgd", "spos", "sgld"]
    assert all(len(cell.split(", ")) == 2 for cell in row[1:])  # then, and now


@pytest.mark.recipes
def test_streaming_agrees_with_espnet_and_with_whole_recordings(tmp_path, capsys):
    run = write_run(tmp_path / "run", block_size=40, hop_size=16, look_ahead=16)
    for table in ("wav.scp", "text"):
        (tmp_path / table).write_text("".join(f"{name} {tmp_path / name}.wav\n" for name in "ab"))
    for seed, name in enumerate("ab"):
        soundfile.write(tmp_path / f"{name}.wav", tones(0.9, seed), RATE)
    options = ["--model_dir", str(run), "--data_dir", str(tmp_path), "--beam_size", "2", "--utterances", "2"]
    importlib.import_module("streaming").main(options)
    _, *rows = rows_of(capsys.readouterr().out)
    assert [row[0] for row in rows] == ["ESPnet", "no repetitions", "blockwise", "ours"]
    assert [row[5] for row in rows[1:3]] == ["2/2", "2/2"] and rows[3][6] == "2/2"


def test_callers_at_once_get_the_texts_of_single_ones(tiny_run, capsys):
    options = ["--model_dir", str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]
    importlib.import_module("serving").main([*options, "--callers", "6", "--rounds", "1"])
    shown = capsys.readouterr().out
    assert [row[0] for row in rows_of(shown)[1:]] == ["one by one", "at once"]
    assert all(float(cell) > 0 for row in rows_of(shown)[1:] for cell in row[1:])
    assert shown.endswith("; 6 of 6 texts are equal\n")


def test_whisper_is_compared_with_transformers(tiny_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    model = write_whisper(tmp_path / "whisper", max_target_positions=12)
    options = [
        str(model),
        str(tiny_run.test_dir),
        "--language",
        "zh",
        "--transformers",
        "--clips",
        "2",
        "--rounds",
        "1",
    ]
    for more in [[], ["--seconds", "3"]]:
        importlib.import_module("whisper_speed").main([*options, *more])
        _, *rows = rows_of(capsys.readouterr().out)
        names = [row[0] for row in rows]
        assert names[0] == "ours float32" and names[-1] == "transformers" and len(names) == 5
        assert all(float(row[1]) > 0 and float(row[3]) >= 0 for row in rows)


def test_translation_is_measured_with_a_shortlist(tiny_translation, tmp_path, capsys):
    run, table = tiny_translation, tmp_path / "lex.s2t"
    table.write_text("".join(f"{target} {source} .1\n" for source in [*"abcd", "NULL"] for target in "abcdABCD"))
    options = [str(run.model_dir), str(run.test_dir), "--rounds", "1", "--batches", "2", "--precisions", "float32"]
    importlib.import_module("translation_speed").main([*options, "--shortlist", str(table)])
    rows = rows_of(capsys.readouterr().out)[1:]
    assert [row[0] for row in rows] == ["ours float32, 2 at once", "ours float32, shortlist of 100, 2 at once"]
    assert all(float(row[1]) > 0 and float(row[2]) > 0 and row[4] == "5" for row in rows)
    assert rows[0][3] == rows[1][3]


def test_ctranslate2_has_the_same_translations(tiny_translation, tmp_path, capsys):
    pytest.importorskip("ctranslate2", reason="ctranslate2, the extra `ctranslate2`, is not installed")
    config = yaml.safe_load((tiny_translation.model_dir / "config.yaml").read_text())
    for part in ("encoder_conf", "decoder_conf"):
        config[part] |= {"attention": None, "num_blocks": 2, "normalize_before": True}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    torch.manual_seed(0)
    model = TASKS["mt"].build_model_from_file(tmp_path / "config.yaml", None, "cpu")[0]
    for parameter in model.parameters():
        parameter.data = 2 * parameter.data + 0.1 * torch.randn_like(parameter)
    torch.save(model.state_dict(), tmp_path / "valid.acc.ave.pth")
    options = [str(tmp_path), str(tiny_translation.test_dir), "--rounds", "1", "--beam_size", "1"]
    importlib.import_module("translation_speed").main(
        [*options, "--ctranslate2", "--batches", "1", "--precisions", "float32"]
    )
    rows = rows_of(capsys.readouterr().out)[1:]
    assert [row[4] for row in rows] == ["5"] * 2


def test_sounds_without_speech_are_transcribed(tiny_run, capsys):
    importlib.import_module("invented_text").main([str(tiny_run.model_dir), "--clips", "1"])
    rows = rows_of(capsys.readouterr().out)[1:]
    assert [row[0] for row in rows] == ["silence", "white noise", "pink noise", "music"] * 2
    assert all(row[2] in ("0 of 1", "1 of 1") and int(row[3]) >= 0 and int(row[4]) <= 1 for row in rows)


@pytest.mark.recipes
def test_hotwords_are_taken_out_of_training_and_counted(tiny_run, tmp_path, capsys):
    hotwords = importlib.import_module("hotwords")
    for name, texts in {"train": ["abc", "bca", "cd", "ad"], "dev": ["abd", "cd"], "test": ["cab", "da"]}.items():
        (tmp_path / name).mkdir()
        for table, value in {"text": "{}", "wav.scp": "a.wav", "utt2spk": name}.items():
            rows = [f"{name}-{number} {value.format(text)}\n" for number, text in enumerate(texts)]
            (tmp_path / name / table).write_text("".join(rows))
    hotwords.main(["split", str(tmp_path), str(tmp_path / "made"), "--words", "ab"])
    made = {name: read_data_dir(tmp_path / "made" / name).text for name in ("train", "dev", "rare", "common")}
    texts = {name: sorted(text.values()) for name, text in made.items()}
    assert texts == {"train": ["ad", "bca", "cd"], "dev": ["cd"], "rare": ["abc", "cab"], "common": ["da"]}

    data, word = tmp_path / "data", (tiny_run.test_dir / "text").read_text().split()[1][:2]
    for name in ("train", "rare", "common"):
        shutil.copytree(tiny_run.test_dir, data / name)
    options = ["measure", str(tiny_run.model_dir), str(data), "--words", word, "--weights", "0", "50"]
    capsys.readouterr()
    hotwords.main([*options, "--distractors", "3", "--set", "minlenratio=-3", "maxlenratio=-6"])
    _, without, strong = rows_of(capsys.readouterr().out)
    assert (without[0], strong[0]) == ("0", "50") and int(strong[5]) > int(without[5])


@pytest.mark.recipes
def test_trained_runs_are_compared_with_the_first(tiny_translation, tmp_path, capsys):
    for number, name in enumerate(("mine_softmax_1", "mine_window_of_4_1")):
        shutil.copytree(tiny_translation.model_dir, tmp_path / name)
        (tmp_path / name / "decode" / "test").mkdir(parents=True)
        summary = {"metrics": {"bleu": {"overall": {"score": 20.25 + number}}}}
        (tmp_path / name / "decode" / "test" / "score.json").write_text(json.dumps(summary))
    runs = [str(path) for path in sorted(tmp_path.iterdir())]
    options = ["--set", "test", "--data_dir", str(tiny_translation.test_dir.parent), "--metric", "bleu"]
    options += ["--batches", "2", "--utterances", "3", "--beam_size", "2", "--repeats", "1"]
    importlib.import_module("trained_runs").main([*runs, *options, "--plot", str(tmp_path / "runs.png")])
    *_, first, second = rows_of(capsys.readouterr().out)
    assert first[:2] == ["softmax", "20.2"] and second[:2] == ["window_of_4", "21.2"]
    assert first[2:5] == second[2:5] and first[5:] == ["1.00"] * 3 and second[6] == "1.00"
    assert (tmp_path / "runs.png").stat().st_size > 5000


@pytest.mark.recipes
def test_trained_classifiers_are_compared_by_their_accuracy(tiny_classifier, tmp_path, capsys):
    runs = []
    for number, name in enumerate(("mine_softmax_1", "mine_luna_1")):
        runs.append(shutil.copytree(tiny_classifier.model_dir, tmp_path / name))
        (tmp_path / name / "decode" / "test").mkdir(parents=True)
        (tmp_path / name / "decode" / "test" / "classification.json").write_text(f'{{"accuracy": {40 + number}.5}}')
    data = tiny_classifier.test_dir
    options = ["--task", "cls", "--metric", "accuracy", "--set", data.name, "--data_dir", str(data.parent)]
    options += ["--batches", "2", "--utterances", "3", "--repeats", "1", "--plot", str(tmp_path / "runs.png")]
    trained_runs = importlib.import_module("trained_runs")
    trained_runs.main([*map(str, runs), *options])
    printed = capsys.readouterr().out
    (tmp_path / "RESULTS.md").write_text(f"{printed}\nAs expected.\n")
    assert [(row.run, row.score, row.step) for row in trained_runs.read_rows(tmp_path / "RESULTS.md")] == [
        ("softmax", 40.5, 1.0),
        ("luna", 41.5, float(rows_of(printed)[-1][3])),
    ]
    trained_runs.main(["--rows", str(tmp_path / "RESULTS.md"), *options[:6], "--plot", str(tmp_path / "again.png")])
    assert (tmp_path / "again.png").stat().st_size > 5000
    *_, first, second = rows_of(printed)
    assert first[:2] == ["softmax", "40.5"] and second[:2] == ["luna", "41.5"]
    assert first[3:] == ["1.00"] * 3 and second[2] == first[2] and len(second) == 6
    assert (tmp_path / "runs.png").stat().st_size > 5000
