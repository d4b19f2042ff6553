"""Pieces of words that are sampled in training depend on the seed of the row, and not on what was drawn before."""

import random

import sentencepiece

from espnet_diverse.training import espnet_command
from espnet_diverse.training.data.sampled_pieces import SampledPieces, seeded
from espnet_diverse.training.data.seeds import seed_row
from espnet_diverse.training.loop.tasks import TASKS


def test_sampled_pieces_depend_on_the_seed_of_the_row_alone(tmp_path):
    draw, syllables = random.Random(0), ["ka", "to", "mi", "ra", "ne", "su", "lo", "vi", "pe", "du"]
    lines = [" ".join("".join(draw.choices(syllables, k=3)) for _ in range(6)) for _ in range(500)]
    model = str(tmp_path / "bpe")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=model, vocab_size=120, hard_vocab_limit=False,
        model_type="unigram", minloglevel=2,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{model}.model")
    tokens = ["<blank>", "<unk>", *map(pieces.id_to_piece, range(3, pieces.get_piece_size())), "<sos/eos>"]
    sampling = {"enable_sampling": True, "alpha": 0.01, "nbest_size": -1}
    both = {"token_list": tokens, "token_type": "bpe", "bpemodel": f"{model}.model", "tokenizer_encode_conf": sampling}
    task = TASKS["mt"]
    args = espnet_command.arguments(task, both | {f"src_{key}": value for key, value in both.items()})
    preprocess = task.build_preprocess_fn(args, True)

    def read(batch):
        seed_row(0, 1, batch, 0)
        return preprocess("a", {"text": "katomira nesulovi", "src_text": "nesulovi"})["text"].tolist()

    assert read(1) == read(1)
    assert len({tuple(read(batch)) for batch in range(5)}) > 1
    sampled = preprocess.tokenizer[0]
    assert isinstance(sampled, SampledPieces) and sampled.tokens2text(sampled.text2tokens("katomira")) == "katomira"
    plain = task.build_preprocess_fn(args, False).tokenizer[0]
    assert not isinstance(plain, SampledPieces) and seeded(plain) is plain and seeded(None) is None
