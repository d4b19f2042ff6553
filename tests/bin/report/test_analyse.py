import base64
import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
import yaml
from references.espnet_models import write_model
from references.figures import PNG, leave_pictures_empty
from references.owsm_ctc import write_ctc_model

from espnet_diverse import pictures
from espnet_diverse.analysis import report
from espnet_diverse.analysis.rounding import certain
from espnet_diverse.bin.main import main


class Reader(HTMLParser):
    """Sources of the images of a page, and its text."""

    def __init__(self, path):
        super().__init__()
        self.images, self.text = [], ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "img":
            self.images.append(attributes["src"])
        assert tag not in ("script", "link", "iframe", "object") and attributes.get("href", "#").startswith("#")

    def handle_data(self, data):
        self.text += data


def arguments(model_dir, data_dir, output_dir, *more):
    return [str(model_dir), "--data_dir", str(data_dir), "--output_dir", str(output_dir), *more]


def skip_pictures(patch):
    """Neither draw nor compute a t-SNE; `analysed` has both."""
    patch.setattr(report, "embed", lambda queries: queries[..., :2])
    leave_pictures_empty(patch)


@pytest.fixture
def no_pictures(monkeypatch):
    skip_pictures(monkeypatch)


@pytest.fixture(scope="module")
def analysed(tiny_run, tmp_path_factory):
    output_dir = tmp_path_factory.mktemp("analysis") / "out"
    assert main(["analyse", *arguments(tiny_run.model_dir, tiny_run.test_dir, output_dir)]) == 0
    return output_dir


@pytest.fixture(scope="module")
def softmax_dir(tiny_run, tmp_path_factory):
    """The tiny model without the options and weights of SDMA."""
    model_dir = tmp_path_factory.mktemp("softmax") / "exp"
    shutil.copytree(tiny_run.model_dir, model_dir, ignore=shutil.ignore_patterns("stats", "tensorboard"))
    config = yaml.safe_load((model_dir / "config.yaml").read_text())
    for section in ("encoder_conf", "decoder_conf"):
        for name in ("attention", "cross_attention"):
            config[section].pop(name, None)
    (model_dir / "config.yaml").write_text(yaml.safe_dump(config))
    weights = torch.load(model_dir / "valid.acc.ave.pth", weights_only=True)
    torch.save({k: v for k, v in weights.items() if ".core." not in k}, model_dir / "valid.acc.ave.pth")
    return model_dir


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("kind", ["ctc", "multitask_ctc"])
def test_a_model_of_ctc_alone_as_espnet_leaves_it(tiny_run, tmp_path, kind, capfd):
    folder = write_model(tmp_path / "exp", kind) if kind == "ctc" else write_ctc_model(tmp_path / "exp")
    call = ["analyse", *arguments(folder, tiny_run.test_dir, tmp_path / "out", "--utterances", "2")]
    assert main([*call, "--ablate_heads", "cer", *(["--language", "deu"] if kind != "ctc" else [])]) == 0
    numbers = json.loads((tmp_path / "out/analysis.json").read_text())
    assert numbers["utterances"] == 2 and list(numbers["redundancy"]) == ["encoder", "mean"]
    layers = 1 if kind == "ctc" else 3
    assert np.shape(numbers["ablation"]["scores"]["encoder"]) == (layers, 2)
    assert "unknown language" not in (said := capfd.readouterr().err) and "has no effect" not in said
    assert main([*call, "--calibration"]) == 1
    assert "the model has CTC alone, and tokens are predicted by a decoder" in capfd.readouterr().err


@pytest.mark.usefixtures("no_pictures")
def test_the_prompt_language_changes_the_attention(tiny_run, tmp_path):
    folder, seen = write_ctc_model(tmp_path / "exp"), []
    for options in ([], ["--language", "deu"], ["--language", "nolang"]):
        out = tmp_path / str(len(seen))
        assert main(["analyse", *arguments(folder, tiny_run.test_dir, out, "--utterances", "1", *options)]) == 0
        seen.append(np.load(out / "analysis.npz")["encoder_example_attention"])
    assert np.array_equal(seen[0], seen[2]) and not np.array_equal(seen[0], seen[1])


def test_pictures_of_others_are_not_replaced(tiny_run, tmp_path, capfd):
    photo = tmp_path / "out/pictures/photo.png"
    photo.parent.mkdir(parents=True)
    photo.write_bytes(PNG)
    assert main(["analyse", *arguments(tiny_run.model_dir, tiny_run.test_dir, tmp_path / "out")]) == 1
    assert f"{photo.parent}: exists, and nothing shows that `analyse` has written it" in capfd.readouterr().err
    assert photo.read_bytes() == PNG


def test_the_page_stands_alone(analysed):
    page = Reader(analysed / "analysis.html")
    pictures = sorted(path.read_bytes() for path in (analysed / "pictures").glob("*.png"))
    assert (
        len(pictures) == 1 + 3 + 3 + 3 + 3 + 3 + 1
    )  # layers; heads, redundancy, clusters, posteriors, attention; queries
    shown = []
    for source in page.images:
        kind, data = source.split(",")
        assert kind == "data:image/png;base64"
        shown.append(base64.b64decode(data, validate=True))
        assert shown[-1].startswith(PNG)
    assert sorted(shown) == pictures
    words = re.sub(r'src="data:[^"]*"', "", (analysed / "analysis.html").read_text())
    assert not re.search(r"//|src=|url\(|@import", words)


def test_page_numbers_and_arrays_agree(analysed):
    page = Reader(analysed / "analysis.html")
    numbers = json.loads((analysed / "analysis.json").read_text())
    arrays = np.load(analysed / "analysis.npz")
    assert numbers["utterances"] == 3 == len(arrays["utterances"]) and numbers["skipped"] == {}
    for kind in ("encoder", "decoder", "cross"):
        each = numbers["redundancy"][kind]
        assert each["lr_bits"] == pytest.approx(arrays[f"{kind}_lr_bits"].mean())
        assert each["hr"] == pytest.approx(arrays[f"{kind}_pairs"].mean()) == pytest.approx(arrays[f"{kind}_hr"].mean())
        assert 0 <= each["lr_normalised"] == pytest.approx(each["lr_bits"])  # two heads: log2 H is 1
        assert certain(arrays[f"{kind}_lr_bits"].mean(1)) in page.text and certain(arrays[f"{kind}_hr"]) in page.text
        assert arrays[f"{kind}_query"].shape[:2] == arrays[f"{kind}_tsne"].shape[:2]
    assert numbers["clusters"]["decoder cross-attention: frames"]["positions"] == 3 * 18
    np.testing.assert_allclose(arrays["cross_frames_usage"].sum(-1), 1)
    assert arrays["cross_example_semantic"].shape == arrays["cross_example_attention"].shape == (1, 2, 4, 18)


@pytest.mark.usefixtures("no_pictures")
def test_softmax_has_no_clusters_and_the_page_says_so(softmax_dir, tiny_run, tmp_path, capfd):
    (tmp_path / "ablation.tsv").write_text("of another model")
    assert main(["analyse", *arguments(softmax_dir, tiny_run.test_dir, tmp_path, "--utterances", "2")]) == 0
    assert not (tmp_path / "ablation.tsv").exists()
    printed = capfd.readouterr().out.splitlines()
    assert printed[0].startswith("| attention |") and printed[-1] == str(tmp_path / "analysis.html")
    page = Reader(tmp_path / "analysis.html")
    assert "This model's attention has no clusters: cluster usage is left out." in page.text
    assert len(page.images) == 1 + 3 + 3 + 3 + 1  # layers; heads, redundancy, attention; queries
    numbers = json.loads((tmp_path / "analysis.json").read_text())
    assert numbers["clusters"] == {} and numbers["utterances"] == 2
    assert not any("semantic" in name or "posterior" in name for name in np.load(tmp_path / "analysis.npz").files)


@pytest.fixture(scope="module")
def on_request(tiny_run, tmp_path_factory):
    """The analysis with everything that has to be asked for; one utterance out of domain cannot be read."""
    folder = tmp_path_factory.mktemp("on_request")
    shutil.copytree(tiny_run.valid_dir, folder / "other")
    audio = (folder / "other" / "wav.scp").read_text().replace("valid-01.wav", "no_such.wav")
    (folder / "other" / "wav.scp").write_text(audio)
    asked = ["--ablate_heads", "loss", "--calibration", "--out_of_domain_dir", str(folder / "other")]
    with pytest.MonkeyPatch.context() as patch:
        skip_pictures(patch)
        assert main(["analyse", *arguments(tiny_run.model_dir, tiny_run.test_dir, folder / "out", *asked)]) == 2
    return folder / "out"


def test_heads_are_ablated_on_request(on_request, analysed):
    rows = [line.split("\t") for line in (on_request / "ablation.tsv").read_text().splitlines()]
    assert rows[0] == ["attention", "layer", "head", "score", "drop", "low", "high"] and len(rows) == 1 + 3 * 2
    numbers = json.loads((on_request / "analysis.json").read_text())["ablation"]
    arrays = np.load(on_request / "analysis.npz")
    for kind in ("encoder", "decoder", "cross"):
        np.testing.assert_array_equal(arrays[f"{kind}_loss_drop"], numbers["drops"][kind])
        assert np.array(numbers["scores"][kind]) - numbers["score"] == pytest.approx(np.array(numbers["drops"][kind]))
    assert [f"{drop:.4f}" for drop in np.ravel(list(numbers["drops"].values()))] == [row[4] for row in rows[1:]]
    assert "Head ablation" in Reader(on_request / "analysis.html").text
    assert not (analysed / "ablation.tsv").exists() and "Head ablation" not in Reader(analysed / "analysis.html").text


def test_calibration_in_and_out_of_domain_on_request(on_request, analysed):
    numbers = json.loads((on_request / "analysis.json").read_text())["calibration"]
    assert list(numbers) == ["in domain", "out of domain"]
    assert numbers["in domain"]["tokens"] == 3 * 4 and numbers["out of domain"]["tokens"] == 3 * 4
    assert "valid-01 was left out" in (on_request / "analyse.log").read_text()
    page = Reader(on_request / "analysis.html")
    assert all(f"{each['ece']:.3f}" in page.text for each in numbers.values())
    assert len(page.images) == len(Reader(analysed / "analysis.html").images) + 2 + 2
    assert "calibration" not in json.loads((analysed / "analysis.json").read_text())


@pytest.mark.usefixtures("no_pictures")
def test_the_support_of_texts_by_ctc_on_request(softmax_dir, tiny_run, tmp_path, capfd):
    asked = arguments(softmax_dir, tiny_run.test_dir, tmp_path / "out", "--ctc_support", "--beam_size", "2")
    assert main(["analyse", *asked]) == 0
    numbers = json.loads((tmp_path / "out/analysis.json").read_text())["ctc_support"]
    arrays = np.load(tmp_path / "out/analysis.npz")
    by_id = numbers["utterances"]
    assert list(by_id) == arrays["support_utterances"].tolist() == ["test-00", "test-01", "test-02"]
    assert numbers["ctc_support"] == pytest.approx(arrays["ctc_support"].mean())
    assert arrays["reference_ctc_support"].tolist() == [one["reference_ctc_support"] for one in by_id.values()]
    page = Reader(tmp_path / "out/analysis.html")
    assert "What CTC hears of the texts" in page.text and (tmp_path / "out/pictures/ctc_support.png").exists()
    assert all(one["text"] in page.text for one in by_id.values())
    ctc = write_model(tmp_path / "exp", "ctc")
    assert main(["analyse", *arguments(ctc, tiny_run.test_dir, tmp_path / "no", "--ctc_support")]) == 1
    assert "--ctc_support: CTC alone writes the texts of this model, and supports" in capfd.readouterr().err


@pytest.mark.usefixtures("no_pictures")
def test_text_translation_is_analysed_too(tiny_translation, tmp_path):
    asked = ["--set", "beam_size=2", "--ablate_heads", "bleu", "--calibration", "--utterances", "2"]
    asked += ["--length_penalty", "1"]
    assert main(["analyse", *arguments(tiny_translation.model_dir, tiny_translation.test_dir, tmp_path, *asked)]) == 0
    numbers = json.loads((tmp_path / "analysis.json").read_text())
    assert numbers["utterances"] == numbers["ablation"]["utterances"] == 2
    assert len((tmp_path / "ablation.tsv").read_text().splitlines()) == 1 + 3 * 2
    assert "encoder self-attention: source tokens" in numbers["clusters"]
    assert list(numbers["calibration"]) == ["in domain"]
    arrays = np.load(tmp_path / "analysis.npz")
    read = len((tiny_translation.test_dir / "src_text").read_text().splitlines()[0].split()[1]) + 1
    assert arrays["encoder_example_attention"].shape[-1] == arrays["cross_example_attention"].shape[-1] == read


@pytest.mark.usefixtures("unchecked_paths")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--beam_size", "2"],
            "beam_size=2 is for --ctc_support and for --ablate_heads cer wer bleu",
        ),
        (["--ablate_heads", "cer", "--beam_size", "0"], "--beam_size 0: beam_size must be at least 1"),
        (
            ["--ablate_heads", "loss", "--beam_size", "2"],
            "is for --ctc_support and for --ablate_heads cer wer bleu chrf; leave",
        ),
        (["--out_of_domain_dir", "data"], "--out_of_domain_dir data is for --calibration; give that as well"),
        (["--calibration", "--out_of_domain_dir", "/no/dir"], "/no/dir: there is no such directory"),
    ],
)
def test_options_without_their_use_are_refused(tiny_run, tmp_path, capfd, options, said):
    assert main(["analyse", *arguments(tiny_run.model_dir, tiny_run.test_dir, tmp_path / "out", *options)]) == 1
    assert said in capfd.readouterr().err and not (tmp_path / "out" / "analysis.html").exists()


@pytest.mark.usefixtures("no_pictures")
def test_an_utterance_that_cannot_be_read_is_left_out(softmax_dir, tiny_run, tmp_path, capfd):
    data_dir = tmp_path / "data"
    shutil.copytree(tiny_run.test_dir, data_dir)
    lines = (data_dir / "wav.scp").read_text().splitlines()
    (data_dir / "wav.scp").write_text("\n".join(["test-00 /no/such.wav", lines[1]]) + "\n")
    chosen = arguments(softmax_dir, data_dir, tmp_path / "out")
    assert main(["analyse", *chosen]) == 2
    assert "WARNING: test-00 was left out: /no/such.wav: no such audio file" in capfd.readouterr().err
    numbers = json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert numbers["utterances"] == 1 and list(numbers["skipped"]) == ["test-00", "test-02"]
    assert "2 could not be measured" in Reader(tmp_path / "out" / "analysis.html").text
    (data_dir / "wav.scp").write_text("test-00 /no/such.wav\n")
    assert main(["analyse", *chosen, "--utterances", "1"]) == 1
    assert "none of 1 utterances could be analysed; first test-00: /no/such.wav" in capfd.readouterr().err


@pytest.mark.usefixtures("no_pictures")
def test_the_figure_utterance_is_the_one_named(softmax_dir, tiny_run, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(pictures, "_has", lambda font, character: character != "a")  # a font without this letter
    chosen = arguments(softmax_dir, tiny_run.test_dir, tmp_path, "--utterances", "1", "--figure_utterance")
    assert main(["analyse", *chosen, "test-02"]) == 0
    text = Reader(tmp_path / "analysis.html").text
    letters = " ".join((tiny_run.test_dir / "text").read_text().split("test-02 ")[1].strip())
    assert f"Utterance test-02: {letters}" in text and "a" in letters
    numbered = ", ".join(f"{number} {letter}" for number, letter in enumerate(letters.split(), 1))
    assert f"those that it lacks are numbered there: {numbered}" in text
    assert main(["analyse", *chosen, "test-99"]) == 1
    assert "utterance 'test-99' is not in text; text has 'test-00'" in capfd.readouterr().err
    assert main(["analyse", *chosen[:-2], "0"]) == 1
    assert "--utterances 0 is not allowed; give at least 1" in capfd.readouterr().err


def test_inputs_and_outputs_exist_after_the_run(analysed, tiny_run, parse):
    analyse, args = parse("analyse", arguments(tiny_run.model_dir, tiny_run.test_dir, analysed))
    assert all(path.exists() for path in analyse.inputs(args) + analyse.outputs(args))
    assert not [path for path in analysed.rglob("*") if "partial" in path.name]
    more = ["--ablate_heads", "wer", "--calibration", "--out_of_domain_dir", str(tiny_run.valid_dir)]
    _, more = parse("analyse", arguments(tiny_run.model_dir, tiny_run.test_dir, analysed, *more))
    assert set(analyse.inputs(more)) - set(analyse.inputs(args)) == {tiny_run.valid_dir}
    assert set(analyse.outputs(more)) - set(analyse.outputs(args)) == {analysed / "ablation.tsv"}


@pytest.mark.usefixtures("no_pictures")
def test_the_analysis_shows_whose_heads_are_whose(of_translation, tmp_path):
    assert main(["analyse", *of_translation, "--output_dir", str(tmp_path), "--utterances", "1"]) == 0
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
