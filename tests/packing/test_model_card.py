"""Model cards: facts from the run's files and from the user, and nothing else."""

import json
import shutil

import pytest
import yaml
from torch import nn

from espnet_diverse.errors import DataError
from espnet_diverse.packing.facts import Facts
from espnet_diverse.packing.model_card import card

CONFIG = {
    "task": "asr",
    "token_list": ["<blank>", "<unk>", "a", "<sos/eos>"],
    "token_type": "char",
    "frontend_conf": {"fs": "16k"},
    "encoder": "diverse_transformer",
    "encoder_conf": {
        "output_size": 256,
        "num_blocks": 12,
        "attention_heads": 4,
        "attention": {"core": "sdma", "n_clusters_z": 8, "selection": {"strategy": "group", "pool": 8, "by": "lang"}},
    },
    "decoder": "transformer",
    "decoder_conf": {"num_blocks": 6},
    "model_conf": {"conditions": {"lang": ["el", "es"], "domain": ["news", "talk"]}},
}
SCORE = {
    "metrics": {
        "cer": {
            "overall": {"score": 12.34, "signature": "CER|jiwer:4"},
            "rows": {"el": {"score": 20.0, "signature": "CER|jiwer:4"}},
            "averages": {"AVG": {"score": 15.0, "signature": ""}},
        }
    }
}
PLAN = """\
stats\tespnet-diverse stats --output_dir exp/run/stats
train\tespnet-diverse train --output_dir exp/run
decode\tespnet-diverse decode exp/run --output_dir exp/run/decode/test
decode\tespnet-diverse decode exp/run --output_dir exp/run/decode/dev
score\tespnet-diverse score --hypothesis exp/run/decode/test/text
"""


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    (folder / "decode" / "test").mkdir(parents=True)
    (folder / "decode" / "test" / "score.json").write_text(json.dumps(SCORE))
    (folder / "plan.tsv").write_text(PLAN)
    return folder


def made(folder, facts=None, config=CONFIG, file="model.zip"):
    """The front matter, and the sections by heading."""
    _, matter, body = card(folder, config, nn.Linear(1000, 1000), facts or Facts(), file, "valid.acc.ave").split(
        "---\n", 2
    )
    title, *sections = body.split("\n## ")
    return yaml.safe_load(matter), title.strip(), dict(section.split("\n\n", 1) for section in sections)


@pytest.mark.parametrize(("name", "is_shown"), [("valid.acc.ave.pth", True), ("valid.epoch.ave.pth", False)])
def test_scores_of_other_weights_are_left_out(run, name, is_shown, caplog):
    (run / "decode" / "test" / "decode.json").write_text(json.dumps({"model_file": name}))
    matter, _, sections = made(run)
    assert ("Results" in sections) is ("metrics" in matter) is is_shown
    assert is_shown is not any(f"give --model_file {name} to use those" in said for said in caplog.messages)


def test_weights_that_a_damaged_decode_json_does_not_state_do_not_matter(run):
    (run / "decode" / "test" / "decode.json").write_text("{")
    assert "Results" in made(run)[2]


def test_the_card_has_the_facts_of_the_run(run):
    matter, title, sections = made(run)
    assert matter == {
        "language": ["el", "es"],
        "metrics": ["cer"],
        "library_name": "espnet",
        "pipeline_tag": "automatic-speech-recognition",
        "tags": ["espnet", "espnet_diverse", "sdma"],
    }
    assert title == "# run\n\nSpeech recognition with espnet_diverse."
    assert list(sections) == ["Use", "Model", "Results", "Commands"]
    assert 'Recognizer("model.zip").transcribe("recording.wav").text' in sections["Use"]
    assert sections["Model"].splitlines()[2:] == [
        "| parameters | 1.00 M |",
        "| encoder | diverse_transformer, 12 layers, 256 wide, 4 heads |",
        "| decoder | transformer, 6 layers |",
        "| encoder attention | sdma, n_clusters_z 8, head selection group, pool of heads 8 |",
        "| vocabulary | 4 tokens, char |",
        "| sampling rate | 16000 Hz |",
        "| languages | el es |",
        "| domains | news talk |",
    ]
    assert sections["Results"].splitlines()[2:] == [
        "| test | cer | 12.3 | CER jiwer:4 |",
        "| test el | cer | 20.0 | CER jiwer:4 |",
        "| test AVG | cer | 15.0 |  |",
    ]
    shown = [line for line in PLAN.splitlines() if "decode/dev" not in line]
    assert sections["Commands"].splitlines() == ["```sh", *(line.split("\t")[1] for line in shown), "```"]


def test_facts_given_by_the_user_are_added(run, tmp_path):
    code = "```sh\n# with two GPUs\n./run.sh --ngpu 2\n```\n"
    (tmp_path / "RESULTS.md").write_text(f"# Results\n\n12.3 by `./run.sh`\n{code}## More\n")
    given = {"name": "Greek and Spanish", "license": "apache-2.0", "languages": ["ell"], "datasets": ["mTEDx"]}
    matter, title, sections = made(run, Facts(**given, data="Talks of 150 hours.", results=tmp_path / "RESULTS.md"))
    assert (matter["license"], matter["language"], matter["datasets"]) == ("apache-2.0", ["ell"], ["mTEDx"])
    assert title.startswith("# Greek and Spanish\n")
    assert sections["Data"].strip() == "Talks of 150 hours."
    assert sections["More results"] == f"### Results\n\n12.3 by `./run.sh`\n{code}#### More\n"


def test_unset_attention_options_and_signatures_are_omitted(run):
    none = {"core": "sma", "selection": None, "n_clusters_z": 4}
    config = CONFIG | {"decoder_conf": {"attention": none, "cross_attention": {"selection": {"strategy": "static"}}}}
    overall = {"overall": {"score": 7.0, "signature": None}, "rows": {}, "averages": {}}
    (run / "decode" / "test" / "score.json").write_text(json.dumps({"metrics": {"wer": overall}}))
    matter, _, sections = made(run, config=config)
    assert matter["tags"][2:] == ["sdma", "sma", "softmax"]
    assert sections["Model"].splitlines()[6:8] == [
        "| decoder attention | sma, n_clusters_z 4 |",
        "| decoder cross-attention | softmax, head selection static |",
    ]
    assert sections["Results"].splitlines()[2:] == ["| test | wer | 7.0 |  |"]


def test_sets_that_were_decoded_twice_are_told_apart(run):
    shutil.copytree(run / "decode", run / "decode_lm")
    results = made(run)[2]["Results"].splitlines()
    assert [line for line in results if "CER" in line and "el" not in line] == [
        f"| {folder}/test | cer | 12.3 | CER jiwer:4 |" for folder in ("decode", "decode_lm")
    ]


def test_commands_of_sets_without_scores_are_left_out(run):
    other = "decode\tespnet-diverse decode exp/run --output_dir exp/run/decode/test{}\n"
    (run / "plan.tsv").write_text(PLAN + "".join(map(other.format, ("2", "-other", "_short", ".clean"))))
    assert sum("decode/test" in line for line in made(run)[2]["Commands"].splitlines()) == 2


def test_unknown_facts_are_omitted(tmp_path):
    config = {"task": "mt", "token_list": ["a"], "token_type": "char", "encoder": "rnn", "frontend_conf": {"fs": 1}}
    matter, _, sections = made(tmp_path, config=config)
    assert set(matter) == {"library_name", "pipeline_tag", "tags"} and list(sections) == ["Use", "Model"]
    assert "Translator(" in sections["Use"] and "sampling" not in sections["Model"]
    language_model = {"task": "lm", "token_list": ["a"], "lm": "transformer", "lm_conf": {"layer": 2}}
    assert "| lm | transformer, 2 layers |" in made(tmp_path, config=language_model)[2]["Model"]


def test_results_that_cannot_be_read(run):
    with pytest.raises(DataError, match=r"gone\.md: cannot be read as text .*; give a Markdown file with results"):
        made(run, Facts(results=run / "gone.md"))
    (run / "decode" / "test" / "score.json").write_text("{")
    with pytest.raises(
        DataError, match=r"score\.json: is damaged or not a file of scores; run espnet-diverse score again"
    ):
        made(run)
