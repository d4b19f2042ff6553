"""Scores of classes: F1, areas under the curves of one class against the rest, and Matthews' correlation.

An et al. 2020, "Repulsive Attention: Rethinking Multi-head Attention as Bayesian Inference", Table 6, reports them for
two classes. scikit-learn computes them.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


def class_scores(
    references: Sequence[str], predictions: Sequence[str], probabilities: NDArray, labels: Sequence[str]
) -> dict[str, float | Mapping[str, float]]:
    """Score the predicted classes of n items.

    Args:
        references: The true classes; classes that are not among `labels` are never right.
        predictions: The predicted classes.
        probabilities: Probability of each class of `labels`, (n, C).
        labels: The C classes of the classifier.

    Returns:
        `f1_by_class`: F1 from 0 to 1 of each class that is true or predicted anywhere; `f1`: their mean; `mcc`:
        Matthews' correlation coefficient, -1 to 1; and, if some class has items in it and items outside, `auc` and
        `auc_pr`: the areas under the curves of receiver operating characteristic and of precision against recall
        (average precision), means over these classes.
    """
    from sklearn.metrics import average_precision_score, f1_score, matthews_corrcoef, roc_auc_score

    true, predicted = np.array(references), np.array(predictions)
    classes = sorted({*references, *predictions})
    by_class = f1_score(true, predicted, labels=classes, average=None, zero_division=0.0)
    columns = [(true == label, probabilities[:, place]) for place, label in enumerate(labels)]
    columns = [(mask, column) for mask, column in columns if 0 < mask.sum() < len(mask)]
    areas = {"auc": roc_auc_score, "auc_pr": average_precision_score} if columns else {}
    return {
        "f1": float(np.mean(by_class)),
        **{name: float(np.mean([area(*column) for column in columns])) for name, area in areas.items()},
        "mcc": float(matthews_corrcoef(true, predicted)) if classes[1:] else 0.0,  # for one class, with a warning
        "f1_by_class": dict(zip(classes, map(float, by_class), strict=True)),
    }
