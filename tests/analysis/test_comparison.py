import json
import shutil

import matplotlib.image
import pytest
import yaml

from espnet_diverse.analysis.comparison import System, read_system, table, to_dict
from espnet_diverse.analysis.comparison_plot import _means, draw_comparison
from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.training.tasks import load_model

ROWS = {"ar": {"score": 30.0}, "de": {"score": 20.0}}
SELECTION = {"strategy": "group", "pool": 4, "conditions": {"lang": ["ar", "de"]}}


@pytest.fixture
def run(tiny_run, tmp_path):
    """A run with scores by language."""
    folder = tmp_path / "group4"
    (folder / "decode" / "test").mkdir(parents=True)
    for name in ("config.yaml", "feats_stats.npz"):
        shutil.copy(tiny_run.model_dir / name, folder)
    wer = {"overall": {"score": 26.0}, "rows": ROWS, "averages": {"AVG": {"score": 25.0}}}
    cer = {"overall": {"score": 9.0}, "rows": {}, "averages": {}}
    (folder / "decode" / "test" / "score.json").write_text(json.dumps({"metrics": {"wer": wer, "cer": cer}}))
    (folder / "decode" / "test" / "decode.json").write_text('{"tokens_per_second": 41.7}')
    return folder


def select_heads(run, **sections):
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["encoder_conf"] |= sections
    (run / "config.yaml").write_text(yaml.safe_dump(config))


def test_a_plain_run(run, tiny_run):
    system = read_system(run, "decode/test", "wer")
    model, _ = load_model(tiny_run.model_dir)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert system == System("group4", "none", 2, 2, parameters, 41.7, {"all": 26, "ar": 30, "de": 20, "AVG": 25})
    assert system.score() == 25
    assert read_system(run, "decode/test", "cer", "mine").score() == 9


def test_selection_and_adapters_are_seen(run):
    plain = read_system(run, "decode/test", "wer")
    adapter = {"by": "lang", "bottleneck": 4, "conditions": SELECTION["conditions"]}
    select_heads(run, attention={"selection": SELECTION}, adapter=adapter)
    system = read_system(run, "decode/test", "wer")
    assert (system.strategy, system.heads, system.pool) == ("adapter + group", 2, 4)
    assert system.parameters != plain.parameters


def test_no_speed_is_no_number(run):
    (run / "decode" / "test" / "decode.json").unlink()
    assert read_system(run, "decode/test", "wer").tokens_per_second is None


def test_the_table_has_a_column_for_each_row():
    one = System("a", "none", 4, 4, 31_400_000, None, {"all": 9.0, "ar": 10.0})
    two = System("b", "group", 4, 8, 35_000_000, 99.6, {"all": 8.0, "de": 7.26})
    assert table([one, two], "WER").splitlines() == [
        "| system | heads | strategy | pool | parameters | tokens/s | WER all | WER ar | WER de |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| a | 4 | none | 4 | 31.40 M | – | 9.0 | 10.0 | – |",
        "| b | 4 | group | 8 | 35.00 M | 100 | 8.0 | – | 7.3 |",
    ]
    assert to_dict([one], "wer")["systems"][0]["parameters"] == 31_400_000


def test_the_line_of_a_strategy_begins_at_the_plain_model(tmp_path):
    sizes = [
        ("none", 4, 4, 20.0),
        ("none", 8, 8, 21.0),
        ("group", 4, 8, 18.0),
        ("group", 4, 8, 16.0),
        ("group", 4, 16, 15),
    ]
    systems = [System("s", strategy, heads, pool, 1, None, {"all": score}) for strategy, heads, pool, score in sizes]
    group = [system for system in systems if system.strategy == "group"]
    assert _means(group, systems) == ([4, 8, 16], [20.0, 17.0, 15.0])
    assert _means(systems[:1], systems) == ([4], [20.0])
    draw_comparison(systems, "WER", tmp_path / "all.png")
    draw_comparison(systems[:1], "WER", tmp_path / "one.png")
    shown = [matplotlib.image.imread(tmp_path / f"{name}.png") for name in ("all", "one")]
    assert shown[0].shape == shown[1].shape and (shown[0] != shown[1]).any()


def test_what_is_not_there_is_named(run):
    with pytest.raises(ConfigError, match=r"score\.json: has no bleu; known: wer cer"):
        read_system(run, "decode/test", "bleu")
    with pytest.raises(DataError, match=r"decode/dev/score\.json: no such file; espnet-diverse score writes it"):
        read_system(run, "decode/dev", "wer")
    (run / "decode" / "test" / "score.json").write_text("{")
    with pytest.raises(DataError, match=r"score\.json: is damaged \(.*\); run the command that wrote it again"):
        read_system(run, "decode/test", "wer")


def test_the_command_writes_table_numbers_and_picture(run, tmp_path, capfd):
    output_dir = tmp_path / "compare"
    assert main(["compare", str(run), str(run), "--names", "first", "--output_dir", str(output_dir)]) == 1
    assert "--names has 1 names for 2 runs; give one name per run, or none" in capfd.readouterr().err
    assert main(["compare", str(run), str(run), "--names", "first", "second", "--output_dir", str(output_dir)]) == 0
    assert (output_dir / "compare.md").read_text() == capfd.readouterr().out
    numbers = json.loads((output_dir / "compare.json").read_text())
    assert [system["name"] for system in numbers["systems"]] == ["first", "second"] and numbers["metric"] == "wer"
    assert (output_dir / "compare.png").read_bytes().startswith(b"\x89PNG")
