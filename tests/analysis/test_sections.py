import json

import numpy as np
import torch

from espnet_diverse.analysis.html_page import Page
from espnet_diverse.analysis.measures.calibration import Calibration
from espnet_diverse.analysis.measures.head_ablation import HeadAblation
from espnet_diverse.analysis.sections import AblationSection, CalibrationSection
from espnet_diverse.analysis.token_predictions import TokenPredictions


def shown(section, folder):
    """The page of a section, without its pictures' data, and the names of the pictures."""
    page = Page("Title")
    section.show(page, folder)
    page.write(folder / "page.html")
    return (folder / "page.html").read_text(), sorted(path.name for path in folder.glob("*.png"))


def test_every_head_has_a_cell(tmp_path):
    scores = {"encoder": np.array([[20.5, 20.0, 19.75]]), "cross": np.array([[28.25, 21.0], [22.0, 23.0]])}
    section = AblationSection(HeadAblation("wer", 7, 20.0, scores))
    text, pictures = shown(section, tmp_path)
    assert "The whole model has wer 20.0000" in text and "The score of 7 utterances" in text
    assert "<td>encoder self-attention</td><td>1</td><td>0.5000</td><td>0.0000</td><td>-0.2500</td>" in text
    assert "<td>decoder cross-attention</td><td>1</td><td>8.2500</td><td>1.0000</td><td></td>" in text
    assert text.count("<tr>") == 1 + 3 and pictures == ["ablation.heads.png", "ablation.histogram.png"]
    assert section.key == "ablation" and json.loads(json.dumps(section.summary()))["drops"]["cross"][0] == [8.25, 1.0]
    assert set(section.arrays()) == {"encoder_wer_drop", "cross_wer_drop"}


def test_every_data_directory_has_a_row(tmp_path):
    confidence = torch.tensor([0.5, 0.9], dtype=torch.float64)
    found = TokenPredictions(-confidence.log(), confidence, torch.tensor([True, False]), 1 - confidence)
    section = CalibrationSection({"in domain": Calibration(1, found), "out of domain": Calibration(2, found)})
    text, pictures = shown(section, tmp_path)
    assert text.count("<tr>") == 1 + 2 and "<td>out of domain</td><td>2</td><td>2</td><td>0.5000</td>" in text
    assert pictures == ["calibration.entropy.png", "calibration.reliability.png"]
    numbers = json.loads(json.dumps(section.summary()))
    assert section.key == "calibration" and numbers["in domain"]["accuracy"] == 0.5
    assert section.arrays()["calibration_in_domain_entropy"].shape == (2,)
