"""Writes the results of `espnet-diverse analyse`: pictures, numbers (JSON and npz) and an HTML page that shows them."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from espnet_diverse.analysis.collect import KINDS, Observation
from espnet_diverse.analysis.figures.heads import HeadMaps, draw
from espnet_diverse.analysis.figures.plots import (
    draw_all_heads,
    draw_clusters,
    draw_layers,
    draw_pairs,
    draw_picks,
    draw_posteriors,
    draw_queries,
    draw_sharing,
    head_names,
)
from espnet_diverse.analysis.figures.positions import drawable
from espnet_diverse.analysis.html_page import Page
from espnet_diverse.analysis.measurements import Survey
from espnet_diverse.analysis.measures import attention_distance, clusters, head_sharing, redundancy
from espnet_diverse.analysis.measures.head_sharing import Ownership
from espnet_diverse.analysis.measures.query_map import embed, separation
from espnet_diverse.analysis.measures.redundancy import Redundancy
from espnet_diverse.analysis.rounding import certain
from espnet_diverse.analysis.sections import Section
from espnet_diverse.data.files.atomic_files import staged_directory, staged_file, write_text
from espnet_diverse.data.output_paths import mark_prepared
from espnet_diverse.decoding.frame_times import FrameTimes
from espnet_diverse.progress import progress

PICTURES = "pictures"
"""Folder beside the page; it is replaced as a whole."""


@dataclass(frozen=True)
class Example:
    """The utterance whose maps are shown.

    Attributes:
        utterance: Id of the utterance.
        tokens: Tokens of its transcript, after the prompt of a model that has one.
        seen: Observations by kind of attention, a key of `collect.KINDS`.
        source: Tokens of its source text; None if the model reads audio.
        times: Times of the encoder frames, if they are known.
    """

    utterance: str
    tokens: Sequence[str]
    seen: dict[str, Observation]
    source: Sequence[str] | None = None
    times: FrameTimes | None = None


def write_report(
    survey: Survey,
    example: Example,
    owned: Sequence[Ownership],
    title: str,
    output_dir: Path,
    sections: Sequence[Section] = (),
) -> None:
    """Write analysis.html, analysis.json, analysis.npz and pictures/ into `output_dir`, the page last."""
    queries = {kind: sample.queries() for kind, sample in survey.queries.items()}
    separated = {kind: separation(values) for kind, values in queries.items()}
    points = {kind: embed(queries[kind]) for kind in progress(list(queries), "t-SNE of queries", unit="picture")}
    output_dir.mkdir(parents=True, exist_ok=True)
    (output_dir / "analysis.html").unlink(missing_ok=True)  # the page of an earlier model
    page = Page(title)
    with staged_directory(output_dir / PICTURES) as folder:
        _overview_section(page, survey, example, folder)
        for section in sections:
            section.show(page, folder)
        _redundancy_section(page, survey, folder)
        _distance_section(page, survey, example.times)
        _cluster_section(page, survey, folder)
        _sharing_section(page, owned, folder)
        _example_section(page, example, folder)
        _query_section(page, points, separated, folder)
        mark_prepared(folder, "analyse")
    arrays = _arrays(survey, example, {"query": queries, "tsne": points}) | head_sharing.arrays(owned)
    for section in sections:
        arrays |= section.arrays()
    with staged_file(output_dir / "analysis.npz") as partial:
        np.savez_compressed(partial, **arrays)
    numbers = {
        "utterances": len(survey.utterances),
        "skipped": survey.skipped,
        "redundancy": redundancy.summary(survey.redundancy),
        "attention_distance": attention_distance.summary(survey.distances),
        "query_separation": {kind: None if math.isnan(value) else value for kind, value in separated.items()},
        "clusters": clusters.summary(survey.clusters),
        "heads": head_sharing.summary(owned),
        **{section.key: section.summary() for section in sections},
    }
    write_text(output_dir / "analysis.json", json.dumps(numbers, ensure_ascii=False, indent=1) + "\n")
    page.write(output_dir / "analysis.html")


def _overview_section(page: Page, survey: Survey, example: Example, folder: Path) -> None:
    count, skipped = len(survey.utterances), len(survey.skipped)
    left_out = f"; {skipped} could not be measured and are listed in analysis.json" if skipped else ""
    several = {kind: stats for kind, stats in survey.redundancy.items() if stats.shape[1] > 1}
    page.heading("At a glance")
    page.paragraph(
        f"Measured on {count} utterances with their reference transcripts (teacher forcing), one at a time, so that "
        f"batches add no padding{left_out}. Intervals are of 95 %, over utterances. All arrays are in analysis.npz, "
        "all numbers in analysis.json."
    )
    for kind, stats in several.items():
        page.paragraph(_verdict(kind, stats))
    if several:
        draw_layers(several, folder / "layers.png")
        page.picture(
            folder / "layers.png",
            "How alike the heads of each layer are (LR / log2 H), mean over utterances; the bands are 95 % intervals.",
            "layers near 1, whose heads do the same work: one of them would do. Layers whose bands do not overlap "
            "differ for certain.",
        )
    paths = [folder / f"{kind}.heads.png" for kind in example.seen]
    for path, (kind, observation) in zip(paths, example.seen.items(), strict=True):
        draw_all_heads(KINDS[kind], observation.weights, path)
    page.pictures(
        paths,
        f"All heads, for utterance {example.utterance}: in each square a row is a query and a column a key; bright is "
        "much attention. Each square has its own scale.",
        "diagonals, heads that follow the order of what is read; vertical stripes, heads that look at the same few "
        "places whatever the query; plain squares, heads that take the mean of everything.",
    )


def _verdict(kind: str, stats: Redundancy) -> str:
    layers, pairs = stats.lr_by_layer() / np.log2(stats.shape[1]), np.triu(stats.matrix(), 1)
    names = head_names(stats.shape)
    one, other = np.unravel_index(pairs.argmax(), pairs.shape)
    text = (
        f"{KINDS[kind].capitalize()}: heads of a layer are alike by {certain(stats.by_utterance()[1])} (0: each looks "
        "elsewhere, 1: all at the same)"
    )
    if len(layers) > 1:
        text += f", most in layer {layers.argmax() + 1} ({layers.max():.2f}), least in layer {layers.argmin() + 1} "
        text += f"({layers.min():.2f})"
    return f"{text}; the two most alike heads are {names[one]} and {names[other]} ({pairs.max():.2f})."


def _redundancy_section(page: Page, survey: Survey, folder: Path) -> None:
    page.heading("Redundancy of attention heads")
    page.table(redundancy.HEADER, redundancy.rows(survey.redundancy))
    page.terms(redundancy.TERMS)
    if missing := [name for kind, name in KINDS.items() if kind not in survey.redundancy]:
        page.paragraph(f"Left out, because none keeps a matrix of weights for each head: {', '.join(missing)}.")
    paths = [folder / f"{kind}.redundancy.png" for kind in survey.redundancy]
    for path, (kind, stats) in zip(paths, survey.redundancy.items(), strict=True):
        draw_pairs(KINDS[kind], stats.matrix(), stats.shape, path)
    page.pictures(
        paths,
        "Redundancy of every two heads, mean over utterances. Row and column 2.3 are head 3 of layer 2; white lines "
        "separate the layers. Bright: the two heads attend to the same places; dark: to different ones.",
        "bright blocks on the diagonal, layers whose heads do the same work.",
    )


def _distance_section(page: Page, survey: Survey, times: FrameTimes | None) -> None:
    if not survey.distances:
        return
    page.heading("How far heads look")
    frames = "frames" if times is None else f"frames of {1000 * times.step:g} ms"
    page.paragraph(
        f"Mean attention distance of self-attention, in encoder {frames} or in tokens: the distance of a position from "
        "the query, weighted by the attention that it gets, mean over queries, heads and utterances. Small: heads look "
        "at their neighbours. Semantic masks have one too. From the first layer to the last:"
    )
    rows = attention_distance.rows(survey.distances)
    most = max(map(len, rows))  # encoder and decoder may have different numbers of layers
    page.table(["layer", *map(str, range(1, most))], [[*row, *[""] * (most - len(row))] for row in rows])


def _cluster_section(page: Page, survey: Survey, folder: Path) -> None:
    page.heading("Clusters")
    if not survey.clusters:
        page.paragraph("This model's attention has no clusters: cluster usage is left out.")
        return
    page.table(clusters.HEADER, clusters.rows(survey.clusters))
    page.terms(clusters.TERMS)
    if topics := clusters.topic_rows(survey.clusters):
        page.paragraph(
            "Tokens of the clusters in the last layers: those whose positions say most about a cluster, by their parts "
            "of the mutual information. analysis.json has those of all layers."
        )
        page.table(clusters.TOPICS, topics)
    for kind in survey.redundancy:
        uses = {clustered: use for (where, clustered), use in survey.clusters.items() if where == kind}
        if not uses:
            page.paragraph(f"The {KINDS[kind]} has no clusters.")
            continue
        path = folder / f"{kind}.clusters.png"
        draw_clusters(KINDS[kind], uses, path)
        page.picture(
            path,
            f"Cluster usage in the {KINDS[kind]}: a row for each head (2.3 is head 3 of layer 2), a column for each "
            "cluster; colour is the share of all positions. Beside each row: clusters used, and clusters a "
            "position.",
            "rows with one bright cell, heads that have collapsed into one cluster, and rows of one colour, heads that "
            "separate nothing.",
        )


def _sharing_section(page: Page, owned: Sequence[Ownership], folder: Path) -> None:
    if not owned:
        return
    page.heading("Heads of languages and domains")
    page.paragraph(
        "Each language or domain attends with its own heads, selected from a pool. Where heads are selected by several "
        "conditions, such as language and domain, the first table and pictures are of their combinations, and the "
        "following ones show what each condition would select alone. "
        "Heads are counted from 1 here and from 0 in analysis.json and analysis.npz."
    )
    for ownership in owned:
        page.table(["layer", *ownership.values], ownership.rows())
        path = folder / f"{ownership.kind}.{ownership.by}.picks.png"
        draw_picks(ownership, path)
        unused = (ownership.owners() == 0).sum()
        page.picture(
            path,
            f"Heads of each language or domain, {ownership.name}: blue heads are its own. {unused} heads have no "
            "owner.",
        )
        path = folder / f"{ownership.kind}.{ownership.by}.sharing.png"
        draw_sharing(ownership, path)
        page.picture(
            path,
            f"Heads that two of them share, {ownership.name}: the number of heads that both have selected, over all "
            "layers. The diagonal counts all heads of each.",
            "dark cells next to the diagonal: two that use the same heads.",
        )


def _example_section(page: Page, example: Example, folder: Path) -> None:
    page.heading("One utterance in the last layers")
    page.paragraph(f"Utterance {example.utterance}: {' '.join(example.tokens)}")
    if drawable(example.tokens) != list(example.tokens):
        numbered = (f"{number} {token}" for number, token in enumerate(example.tokens, 1))
        page.paragraph(
            "No font of the machine that drew the pictures has all of them; those that it lacks are numbered there: "
            + ", ".join(numbered)
        )
    predicted, read = [*example.tokens, "<eos>"], ["<sos>", *example.tokens]
    source = None if example.source is None else ["<sos>", *example.source]
    for kind, observation in example.seen.items():
        layer = f"{KINDS[kind]}, layer {len(observation.weights)}"
        queries, keys = source if kind == "encoder" else predicted, read if kind == "decoder" else source
        if observation.posteriors:
            path = folder / f"{kind}.posteriors.png"
            posteriors = {clustered: p[-1].numpy() for clustered, p in observation.posteriors.items()}
            labelled = {"tokens": predicted, "source tokens": source, "queries": queries}
            labelled = {clustered: labels for clustered, labels in labelled.items() if labels}
            draw_posteriors(f"{example.utterance}: {layer}", posteriors, labelled, path, example.times)
            page.picture(
                path,
                f"Cluster probabilities in the {layer}: a row for each head, a column for each thing that is clustered "
                f"({', '.join(posteriors)}). Each vertical line sums to 1.",
                "runs of one bright cluster, stretches that the head treats as one kind.",
            )
        path = folder / f"{kind}.attention.png"
        maps = HeadMaps.of(layer, observation)
        draw(maps, example.utterance, path, queries, keys, example.times)
        page.picture(
            path,
            f"The {layer}: {' and '.join(maps.kinds())}, a row of pictures for each head. In each, a row is a query "
            "and its colours, which sum to 1, say how much of each key it takes; bright is much."
            + "".join(f" {shown.meaning}" for shown in observation.maps.values()),
        )


def _query_section(page: Page, points: dict[str, np.ndarray], separated: dict[str, float], folder: Path) -> None:
    page.heading("Queries of the last layers")
    cells = [(KINDS[kind], "–" if math.isnan(value) else f"{value:.2f}") for kind, value in separated.items()]
    page.table(["attention", "separation"], cells)
    page.paragraph(
        "Separation of heads: the mean silhouette of the queries, each head being a cluster. 1: the queries of a head "
        "are alike and unlike those of others; 0: heads overlap."
    )
    path = folder / "queries.png"
    draw_queries({KINDS[kind]: values for kind, values in points.items()}, path)
    numbers = ", ".join(f"{values.shape[0] * values.shape[1]} of the {KINDS[kind]}" for kind, values in points.items())
    page.picture(
        path,
        f"Queries of the last layer by t-SNE, coloured by head ({numbers}). Neighbours on the plane are neighbours in "
        "the space of queries; sizes of groups and distances between them mean little.",
        "colours apart from each other, heads that ask different questions.",
    )


def _arrays(survey: Survey, example: Example, queries: dict[str, dict]) -> dict[str, np.ndarray]:
    arrays = {"utterances": np.array(survey.utterances), "example": np.array(example.utterance)}
    for kind, stats in survey.redundancy.items():
        arrays[f"{kind}_lr_bits"] = np.stack(stats.layers)  # (utterances, N)
        arrays[f"{kind}_hr"] = np.array(stats.heads)
        arrays[f"{kind}_pairs"] = stats.matrix()
    for (kind, name), apart in survey.distances.items():
        arrays[f"{kind}_{name}_distance"] = np.stack(apart.utterances)  # (utterances, N, H)
    for (kind, clustered), use in survey.clusters.items():
        arrays[f"{kind}_{clustered}_usage"] = use.usage()
        arrays[f"{kind}_{clustered}_own_perplexity"] = use.own_perplexity()
    for kind, observation in example.seen.items():
        arrays[f"{kind}_example_attention"] = observation.weights.numpy()
        for name, shown in observation.maps.items():
            arrays[f"{kind}_example_{name}"] = shown.values.numpy()
        for clustered, posteriors in observation.posteriors.items():
            arrays[f"{kind}_example_{clustered}_posterior"] = posteriors.numpy()
    for name, kinds in queries.items():
        arrays |= {f"{kind}_{name}": values for kind, values in kinds.items()}
    return arrays
