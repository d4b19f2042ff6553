"""A hook of mkdocs: draws the pictures of gallery.md, from the code and from gallery.json."""

import io
import json
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from mkdocs.structure.files import File

from espnet_diverse.functional.head_patterns import allowed_pairs
from espnet_diverse.functional.sparse_patterns import BigBirdBlocks, Sliding

DATA = Path(__file__).with_suffix(".json")
TIME = 16
PATTERNS = {
    **dict.fromkeys(("global", "forward", "backward", "previous", "next", "start", "end"), 0),
    **{"window: 2": 2, "block: 4": 4, "strided: 4": 4, "ends: 4": 4},
}
CORES = {
    "core: window, 2, global 1": Sliding(2, global_runs=(range(1),)),
    "core: bigbird, blocks of 2": BigBirdBlocks(2, random=1),
}


def on_files(files, config, **_):
    """Add the pictures to the files of the site."""
    for name, draw in (("gallery_patterns.png", patterns), ("gallery_heads.png", heads)):
        content = io.BytesIO()
        draw().savefig(content, format="png", dpi=110, metadata={"Software": None})
        files.append(File.generated(config, name, content=content.getvalue()))
    plt.close("all")
    return files


def patterns() -> Figure:
    """Draw which keys each query of 16 may attend to, for patterns of heads and for sparse cores."""
    position, length = torch.arange(TIME), torch.tensor([TIME])
    query, key = position.unsqueeze(-1), position
    drawn = {name: allowed_pairs(name.partition(":")[0], query, key, length, width) for name, width in PATTERNS.items()}
    drawn |= {name: core.allows(query, key, length) for name, core in CORES.items()}
    figure, axes = plt.subplots(3, 5, figsize=(11, 7.2), layout="constrained")
    for axis in axes.flat[len(drawn) :]:
        axis.axis("off")
    for axis, (name, pairs) in zip(axes.flat, drawn.items(), strict=False):
        axis.imshow(pairs, cmap="Blues", vmin=0, vmax=1.4)
        axis.set(title=name, xlabel="key", ylabel="query", xticks=[0, TIME - 1], yticks=[0, TIME - 1])
    return figure


def heads() -> Figure:
    """Draw the heads of two trained encoders on one sentence."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    tokens, count = data["tokens"], len(data["tokens"])
    figure, axes = plt.subplots(4, 4, figsize=(12, 12.5), layout="constrained", sharex=True, sharey=True)
    rows = [
        (name, layer, maps)
        for name in data["maps"]
        for layer, maps in zip(data["layers"], data["maps"][name], strict=True)
    ]
    for row, (name, layer, maps) in zip(axes, rows, strict=True):
        for number, (axis, weights) in enumerate(zip(row, maps, strict=True), start=1):
            axis.imshow(weights, cmap="magma", vmin=0, vmax=1)
            axis.set_title(f"{name}, layer {layer}, head {number}", fontsize=9)
            axis.set_xticks(range(count), tokens, rotation=90, fontsize=7)
            axis.set_yticks(range(count), tokens, fontsize=7)
    figure.supxlabel("key")
    figure.supylabel("query")
    figure.colorbar(axes[0][0].images[0], ax=axes, shrink=0.4, label="attention weight")
    return figure
