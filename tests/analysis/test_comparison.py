import pytest
import yaml
from references.espnet_fixtures import Model

from espnet_diverse.analysis import comparison
from espnet_diverse.analysis.comparison import System, check_signatures, read_size, read_system, table, to_dict
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.runs.tasks import load_model

SELECTION = {"strategy": "group", "pool": 4, "conditions": {"lang": ["ar", "de"]}}


def select_heads(scored_run, **sections):
    config = yaml.safe_load((scored_run / "config.yaml").read_text())
    config["encoder_conf"] |= sections
    (scored_run / "config.yaml").write_text(yaml.safe_dump(config))


def test_a_plain_run(scored_run, tiny_run):
    system = read_system(scored_run, "decode/test", "wer")
    model, _ = load_model(tiny_run.model_dir)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    scores, interval = {"all": 26, "ar": 30, "de": 20, "AVG": 25}, {"all": (24.5, 27.5)}
    counted = {"flops": system.flops, "memory": system.memory}
    assert system == System("group4", "none", 2, 2, parameters, 41.7, scores, interval, "sdma", **counted)
    assert system.flops > 1e6 and system.memory > 4 * parameters
    assert system.score() == 25
    assert read_system(scored_run, "decode/test", "cer", "mine").score() == 9


def test_selection_and_adapters_are_seen(scored_run):
    plain = read_system(scored_run, "decode/test", "wer")
    adapter = {"by": "lang", "bottleneck": 4, "conditions": SELECTION["conditions"]}
    select_heads(scored_run, attention={"selection": SELECTION}, adapter=adapter)
    system = read_system(scored_run, "decode/test", "wer")
    assert (system.strategy, system.heads, system.pool) == ("adapter + group", 2, 4)
    assert system.parameters != plain.parameters


def test_no_speed_is_no_number(scored_run):
    (scored_run / "decode" / "test" / "decode.json").unlink()
    assert read_system(scored_run, "decode/test", "wer").tokens_per_second is None


def test_the_table_has_a_column_for_each_row():
    one = System("a", "none", 4, 4, 31_400_000, None, {"all": 9.0, "ar": 10.0}, {"all": (8.26, 9.9)})
    two = System(
        "b", "group", 4, 8, 35_000_000, 99.6, {"all": 8.0, "de": 7.26}, attention="sdma", flops=2.5e9, memory=1.4e8
    )
    assert table([one, two], "WER").splitlines() == [
        "| system | attention | heads | strategy | pool | parameters | GFLOP of 10 s or 30 tokens | MB for it "
        "| tokens/s | WER all | WER ar | WER de |",
        f"|{' --- |' * 12}",
        "| a | softmax | 4 | none | 4 | 31.40 M | 0.00 | 0 | – | 9.0 (8.3 to 9.9) | 10.0 | – |",
        "| b | sdma | 4 | group | 8 | 35.00 M | 2.50 | 140 | 100 | 8.0 | – | 7.3 |",
    ]
    assert to_dict([one], "wer")["systems"][0]["parameters"] == 31_400_000


def test_a_name_with_a_bar_stays_in_its_cell():
    assert r"| a&#124;b | softmax |" in table([System("a|b", "none", 4, 4, 1, None, {"all": 9.0})], "WER")


def test_scores_that_were_computed_otherwise_are_refused():
    def system(name, signature):
        return System(name, "none", 4, 4, 1, None, {"all": 9.0}, signature=signature)

    lower = system("b", "WER|case:lc|bs:1000|seed:1|jiwer:4")
    check_signatures([system("a", "WER|case:lc|bs:200|seed:9|jiwer:4"), lower, system("old", "")])
    said = r"^scores of a \(WER\|case:mixed\|jiwer:4\) and b \(WER\|case:lc\|jiwer:4\) are not comparable; score both"
    with pytest.raises(ConfigError, match=said):
        check_signatures([system("a", "WER|case:mixed|bs:1000|seed:1|jiwer:4"), system("old", ""), lower])


def test_missing_or_damaged_results_are_refused(scored_run):
    with pytest.raises(ConfigError, match=r"score\.json: has no bleu; known: wer cer"):
        read_system(scored_run, "decode/test", "bleu")
    with pytest.raises(DataError, match=r"decode/dev/score\.json: no such file; espnet-diverse score writes it"):
        read_system(scored_run, "decode/dev", "wer")
    (scored_run / "decode" / "test" / "decode.json").write_text("[]")
    with pytest.raises(DataError, match=r"decode\.json: is damaged \(.*\); run espnet-diverse decode again"):
        read_system(scored_run, "decode/test", "wer")
    (scored_run / "decode" / "test" / "score.json").write_text("{")
    with pytest.raises(DataError, match=r"score\.json: is damaged or not a file of scores"):
        read_system(scored_run, "decode/test", "wer")


def test_a_model_of_a_task_that_is_not_supported_is_refused():
    with pytest.raises(ModelError, match=r"config\.yaml: a model of task asr_transducer is not possible here; use"):
        read_size(Model("202511", "transducer").folder)


def test_an_encoder_without_attention_is_refused(scored_run, monkeypatch):
    monkeypatch.setattr(comparison, "attentions", lambda model: {"encoder": []})
    with pytest.raises(ModelError, match="its encoder has no attention heads to compare; leave the run out$"):
        read_system(scored_run, "decode/test", "wer")
