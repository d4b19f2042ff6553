"""A task of ESPnet's trainer for classification of text; ESPnet's own tasks classify audio alone."""

from argparse import Namespace
from pathlib import Path

from espnet2.tasks import lm
from espnet2.torch_utils.initialize import initialize
from espnet2.train.abs_espnet_model import AbsESPnetModel
from espnet2.train.class_choices import ClassChoices

from espnet_diverse.nets.classification.sentence_classifier import CLASSIFIERS
from espnet_diverse.nets.models import DiverseClassificationModel


class ClassificationTask(lm.LMTask):
    """ESPnet's task of a text and a net for it, with a classifier in place of the language model."""

    class_choices_list = [
        ClassChoices("classifier", CLASSIFIERS, default="self_attentive"),
        ClassChoices("model", {"diverse": DiverseClassificationModel}, AbsESPnetModel, default="diverse"),
    ]

    @classmethod
    def build_model(cls, args: Namespace) -> AbsESPnetModel:
        """Build the model of a configuration, whose vocabulary becomes part of it."""
        if isinstance(args.token_list, str):
            with Path(args.token_list).open(encoding="utf-8") as file:
                args.token_list = [line.rstrip() for line in file]  # as in ESPnet's tasks
        classifiers, models = cls.class_choices_list
        net = classifiers.get_class(args.classifier)(len(args.token_list), **args.classifier_conf)
        model = models.get_class(args.model)(net, **args.model_conf)
        if args.init is not None:
            initialize(model, args.init)
        return model
