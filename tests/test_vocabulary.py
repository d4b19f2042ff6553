from espnet_diverse import vocabulary
from espnet_diverse.text.vocabulary import Vocabulary


def test_the_public_name_is_the_class():
    assert vocabulary.Vocabulary is Vocabulary
