"""A classifier of sentences as a model of ESPnet's trainer."""

import torch.nn.functional as F
from espnet2.torch_utils.device_funcs import force_gatherable
from espnet2.train.abs_espnet_model import AbsESPnetModel
from torch import Tensor

from espnet_diverse.nets.classification.sentence_classifier import SelfAttentiveClassifier
from espnet_diverse.scope import current


class ClassificationModel(AbsESPnetModel):
    """Cross-entropy of the class of a sentence, which is a condition of the open scope.

    Args:
        classifier: The net; its `by` is the condition whose values are the classes.
    """

    def __init__(self, classifier: SelfAttentiveClassifier):
        super().__init__()
        self.classifier, self.by = classifier, classifier.by

    def forward(self, text: Tensor, text_lengths: Tensor, **_) -> tuple[Tensor, dict[str, Tensor | None], Tensor]:
        """Tokens (B, T) with their numbers (B,) -> loss (1,), statistics of (1,) each, and weight (1,).

        Raises:
            ValueError: The open scope has no classes of the sentences.
        """
        labels = current().condition(self.by, len(text))
        scores = self.classifier(text, text_lengths).scores
        loss = F.cross_entropy(scores, labels)
        accuracy = (scores.argmax(-1) == labels).float().mean()
        return force_gatherable((loss, {"loss": loss.detach(), "acc": accuracy}, len(text)), loss.device)

    def collect_feats(self, text: Tensor, text_lengths: Tensor, **_) -> dict[str, Tensor]:
        """Return nothing: text has no features."""
        return {}
