"""Redundancy of the heads of each method, as `espnet-diverse analyse` measures it on some utterances."""

import sys
from collections.abc import Sequence
from pathlib import Path

from espnet_diverse.contest.programs import FINISHED, Programs
from espnet_diverse.contest.runs import Run
from espnet_diverse.untrusted.whole_files import read_json

FOLDER = "analysis"
"""Folder of the report of `analyse` in the folder of a run."""
KINDS = {"encoder": "encoder", "decoder": "decoder", "cross": "cross-attention"}


def analyse(runs: Sequence[Run], programs: Programs, utterances: int, device: str = "cpu") -> list[str]:
    """Analyse runs that have no analysis yet; return the names of methods for which it failed, such as without weights.

    Args:
        runs: The runs, one of each method.
        programs: Runs the commands.
        utterances: Number of utterances.
        device: Device to compute on.
    """
    failed = []
    for run in runs:
        folder = (run.folder / FOLDER).absolute()
        if (folder / "analysis.html").is_file() or programs.stopped:  # which is written last
            continue
        print(f"{run.label}: analysing the heads", flush=True)
        data = run.data(run.sets[-1]).absolute()
        words = ["analyse", str(run.folder.absolute()), "--data_dir", str(data), "--output_dir", str(folder)]
        command = [sys.executable, "-m", "espnet_diverse", *words, "--utterances", str(utterances), "--device", device]
        code = programs.run(command, run.place, run.log).code
        if code not in FINISHED and not programs.stopped:
            print(f"{run.label}: its heads could not be analysed; see {run.log}", file=sys.stderr, flush=True)
            failed.append(run.name)
    return failed


def read_redundancy(run: Run) -> dict[str, dict[str, float | None]]:
    """Measures of the heads of a run by kind of attention, a key of `KINDS`; none if it was not analysed."""
    path: Path = run.folder / FOLDER / "analysis.json"
    if not path.is_file():
        return {}
    measures = read_json(path)["redundancy"]
    return {kind: measures[kind] for kind in KINDS if kind in measures}
