"""A classifier of sentences as a model of ESPnet's trainer."""

import torch.nn.functional as F
from espnet2.torch_utils.device_funcs import force_gatherable
from espnet2.train.abs_espnet_model import AbsESPnetModel
from torch import Tensor, nn

from espnet_diverse.nets.models import Diverse
from espnet_diverse.scope import current


class ClassificationModel(AbsESPnetModel):
    """Cross-entropy of the class of a sentence, which is a condition of the open scope.

    Args:
        classifier: The net, with `by`, the condition whose value is the class, such as `SelfAttentiveClassifier`.
    """

    def __init__(self, classifier: nn.Module):
        super().__init__()
        self.classifier = classifier

    def forward(self, text: Tensor, text_lengths: Tensor, **_) -> tuple[Tensor, dict[str, Tensor | None], Tensor]:
        """Tokens (B, T) with their numbers (B,) -> loss (1,), statistics of (1,) each, and weight (1,).

        Raises:
            ValueError: The open scope has no classes of the sentences.
        """
        labels = current().condition(self.classifier.by, len(text))
        scores = self.classifier(text, text_lengths).scores
        loss = F.cross_entropy(scores, labels)
        accuracy = (scores.argmax(-1) == labels).float().mean()
        return force_gatherable((loss, {"loss": loss.detach(), "acc": accuracy}, len(text)), loss.device)

    def collect_feats(self, text: Tensor, text_lengths: Tensor, **_) -> dict[str, Tensor]:
        """Return nothing: text has no features."""
        return {}


class DiverseClassificationModel(Diverse, ClassificationModel):
    """The model with the losses and statistics of all models of this package.

    Args:
        args: Arguments of `ClassificationModel`.
        options: `auxiliary_factor`, `balance_interval` and `conditions`, see `Diverse`.
    """
