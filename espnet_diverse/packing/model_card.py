"""The model card of a packed model: README.md with the front matter of the Hugging Face Hub.

It contains only facts from the files of the run and from the user.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from torch import nn

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import DataError
from espnet_diverse.packing.facts import Facts
from espnet_diverse.runs.audio_rate import audio_rate
from espnet_diverse.runs.condition_names import names_of_conditions
from espnet_diverse.runs.frontends import pretrained_encoders
from espnet_diverse.runs.packed.archive import title_of
from espnet_diverse.scoring.score_file import read_metrics, rows_of
from espnet_diverse.untrusted.hub import PREFIX
from espnet_diverse.untrusted.whole_files import read_json, read_text

log = logging.getLogger(__name__)

WHAT = {
    "asr": ("Speech recognition", "automatic-speech-recognition"),
    "st": ("Speech translation", "automatic-speech-recognition"),
    "mt": ("Text translation", "translation"),
    "lm": ("Language model", "text-generation"),
    "cls": ("Text classification", "text-classification"),
    "electra": ("Pretrained text encoder", "feature-extraction"),
    **dict.fromkeys(("s2t", "s2t_ctc"), ("Speech recognition and translation", "automatic-speech-recognition")),
}
"""Title of the task, and its name on the Hub."""
_SPEECH = """\
```sh
espnet-diverse transcribe {file} recording.wav
```

```python
from espnet_diverse.inference import Recognizer
print(Recognizer("{file}").transcribe("recording.wav").text)
```
"""
_TEXT = """\
```python
from espnet_diverse.inference import Translator
print(Translator("{file}").translate("...").text)
```
"""
_PERPLEXITY = """\
```sh
espnet-diverse perplexity {file} --data_dir DATA_DIR --output_dir OUTPUT_DIR
```
"""
_CLASSES = """\
```sh
espnet-diverse classify {file} --data_dir DATA_DIR --output_dir OUTPUT_DIR
```
"""
_PRETRAINED = """\
```sh
espnet-diverse train --task cls --init_param FILE:classifier.encoder:classifier.encoder --config CONFIG \\
  --train_dir TRAIN_DIR --valid_dir VALID_DIR --tokens_dir TOKENS_DIR --output_dir OUTPUT_DIR
```
"""
_USE = {"mt": _TEXT, "lm": _PERPLEXITY, "cls": _CLASSES, "electra": _PRETRAINED}
_ATTENTIONS = (("encoder", "attention"), ("decoder", "attention"), ("decoder", "cross_attention"))


def card(model_dir: Path, config: Mapping, model: nn.Module, facts: Facts, file: str, weights: str) -> str:
    """Write the text of a model card.

    Args:
        model_dir: Directory of the run; scores are read from its decode/*/score.json, commands from its plan.tsv.
        config: Configuration of the run.
        model: The model.
        facts: Statements of the user.
        file: Name of the packed model.
        weights: Name of its weights in the run, without the suffix; scores of others are left out, with a warning.

    Raises:
        DataError: A file with results is missing or damaged.
    """
    task = config.get("task", "asr")
    scores = {folder: read_metrics(path) for folder, path in scored_sets(model_dir, weights)}
    use = _USE.get(task, _SPEECH).format(file=f"{PREFIX}{facts.repository}" if facts.repository else file)
    rows = model_rows(config, sum(parameter.numel() for parameter in model.parameters()))
    sections = {"Use": use, "Model": _table(rows), "Data": facts.data and f"{facts.data}\n"}
    sections |= {
        "Results": _results(scores),
        "Commands": _commands(model_dir, scores),
        "More results": _text(facts.results),
    }
    title = f"# {facts.name or title_of(model_dir)}\n\n{WHAT[task][0]} with espnet_diverse.\n"
    parts = [_front_matter(config, facts, scores), title]
    parts += [f"## {heading}\n\n{text}" for heading, text in sections.items() if text]
    return "\n".join(parts)


def _front_matter(config: Mapping, facts: Facts, scores: Mapping[str, Mapping]) -> str:
    task = config.get("task", "asr")
    cores = {core for _, core, _ in _attentions(config)}
    matter = {
        "license": facts.license,
        "language": list(facts.languages) or _languages(config),
        "datasets": list(facts.datasets),
        "metrics": sorted({metric for metrics in scores.values() for metric in metrics}),
        "library_name": "espnet",
        "pipeline_tag": WHAT[task][1],
        "tags": ["espnet", "espnet_diverse", *sorted(cores)],
    }
    entries = {key: value for key, value in matter.items() if value}
    return f"---\n{yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)}---\n"


def _languages(config: Mapping) -> list[str]:
    names = names_of_conditions(config)
    return list(dict.fromkeys([*names.get("lang", ()), *names.get("tgtlang", ())]))


def model_rows(config: Mapping, parameters: int) -> dict[str, str]:
    """Facts about a model by name, from its configuration and the number of its parameters."""
    rows = {"parameters": f"{parameters / 1e6:.2f} M"}
    if encoders := list(pretrained_encoders(config)):
        rows["pretrained encoder"] = "; ".join(_pretrained(*encoder) for encoder in encoders)
    for net in ("encoder", "decoder", "lm", "classifier"):
        if config.get(net):
            rows[net] = ", ".join([str(config[net]), *_size(config.get(f"{net}_conf") or {})])
    for where, core, options in _attentions(config):
        rows[where] = ", ".join([core, *(f"{key} {value}" for key, value in options.items())])
    rows["vocabulary"] = f"{len(config['token_list'])} tokens, {config.get('token_type')}"
    rate = None if config.get("task") in ("mt", "lm", "cls") else audio_rate(config)
    if rate is not None:
        rows["sampling rate"] = f"{rate} Hz"
    return rows | {
        f"{CONDITIONS[condition].label}s": " ".join(names) for condition, names in names_of_conditions(config).items()
    }


def _pretrained(architecture: Mapping, frozen: bool) -> str:
    """Name, type and licence of a pretrained encoder whose weights are in the model."""
    training = "as it was published" if frozen else "trained further"
    license = architecture.get("license")
    message = f"licence {license}" if license else "its licence is not known"
    return f"{architecture.get('name')}, {architecture['encoder']['model_type']}, {training}, {message}"


def _size(options: Mapping) -> Iterator[str]:
    named = {
        "num_blocks": "layers",
        "output_size": "wide",
        "attention_heads": "heads",
        "layer": "layers",
        "heads": "heads",
    }
    return (f"{options[key]} {reason}" for key, reason in named.items() if key in options)


def _attentions(config: Mapping) -> Iterator[tuple[str, str, Mapping]]:
    """Place of each attention of this package, its core, and its options."""
    for net, kind in (*_ATTENTIONS, ("lm", "attention")):
        options = dict((config.get(f"{net}_conf") or {}).get(kind) or {})
        if options:
            selection = options.pop("selection", None) or {}
            core = options.pop("core", "softmax")
            names = {"head selection": selection.get("strategy"), "pool of heads": selection.get("pool")}
            yield f"{net} {kind}".replace("_", "-"), core, options | {k: v for k, v in names.items() if v is not None}


def scored_sets(model_dir: Path, weights: str) -> Iterator[tuple[str, Path]]:
    """Folder and score.json of each set of a run that was decoded with these weights and scored."""
    for path in sorted(model_dir.glob("decode*/*/score.json")):
        if _is_of(path.parent, weights):
            yield path.parent.relative_to(model_dir).as_posix(), path


def _is_of(folder: Path, weights: str) -> bool:
    """Return whether a set was decoded with these weights, as far as its decode.json states; warn if not."""
    try:
        decoded = read_json(folder / "decode.json")
    except (OSError, ValueError):  # missing or damaged
        return True
    used = decoded.get("model_file") if isinstance(decoded, Mapping) else None
    if not isinstance(used, str) or Path(used).stem == weights:
        return True
    reason = f"was decoded with {used}, so its scores are not of the weights {weights}, and left out"
    log.warning("%s: %s; give --model_file %s to use those", folder, reason, used)
    return False


def _results(scores: Mapping[str, Mapping]) -> str:
    """One row for each set and metric, and for each language, direction or domain in the set."""
    lines = []
    several = len({folder.partition("/")[0] for folder in scores}) > 1  # the same sets, decoded with other settings
    for folder, metrics in scores.items():
        title = folder if several else folder.partition("/")[2]
        for metric, groups in metrics.items():
            for row, result in rows_of(groups).items():
                name = f"{title} {row}".strip()
                signature = result.get("signature") or ""
                lines.append(f"| {name} | {metric} | {result['score']:.1f} | {signature.replace('|', ' ')} |\n")
    head = "| set | metric | score | signature |\n|---|---|---|---|\n"
    return head + "".join(lines) if lines else ""


def _commands(model_dir: Path, scores: Mapping[str, Mapping]) -> str:
    """The commands of the run's plan: training, and decoding and scoring of the sets that have scores."""
    plan = model_dir / "plan.tsv"
    lines = read_text(plan).splitlines() if plan.is_file() else []
    stages = [line.partition("\t")[::2] for line in lines]
    shown = [
        command
        for stage, command in stages
        if stage in ("stats", "train") or any(re.search(rf"/{re.escape(path)}(?![\w.-])", command) for path in scores)
    ]
    return "".join(["```sh\n", *(f"{command}\n" for command in shown), "```\n"]) if shown else ""


def _text(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as text ({error}); give a Markdown file with results") from error
    code, text = False, ""
    for line in lines:
        code ^= line.startswith("```")
        text += f"{'##' if line.startswith('#') and not code else ''}{line}\n"
    return text


def _table(rows: Mapping[str, str]) -> str:
    return "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in rows.items())
