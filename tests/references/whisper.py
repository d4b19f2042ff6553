"""Small Whisper models with random weights, written by transformers: 2 layers, 16 wide, bytes as tokens."""

import json

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

LANGUAGES = ["en", "zh", "de"]
MERGED = ["Ġhello", "Ġgut", "Ġtag"]  # tokens of several letters
TASKS = ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
TIMES = 1501


def tokenizer(languages=LANGUAGES):
    """A tokenizer of bytes and a few merges, with Whisper's special tokens in its order."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces, merges = list(letters), []
    for word in MERGED:
        for end in range(2, len(word) + 1):
            if word[:end] not in pieces:
                pieces.append(word[:end])
                merges.append((word[: end - 1], word[end - 1]))
    made = Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, merges))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{name}|>" for name in languages), *TASKS]
    made.add_special_tokens([AddedToken(token, special=True) for token in special])
    return made


def write_whisper(folder, multilingual=True, seed=0, languages=LANGUAGES, **changed):
    """Write a model in Hugging Face's layout; return the folder.

    Args:
        folder: The folder, which is made.
        multilingual: Whether prompts name a language.
        seed: Seed of the weights.
        languages: Names of the languages.
        changed: Options of transformers' WhisperConfig.
    """
    torch.manual_seed(seed)
    made = tokenizer(languages)
    end = made.token_to_id("<|endoftext|>")
    sizes = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "num_mel_bins": 80}
    sizes |= {f"{net}_{part}": value for net in ("encoder", "decoder") for part, value in HEADS.items()}
    special = {"pad_token_id": end, "bos_token_id": end, "eos_token_id": end, "decoder_start_token_id": end + 1}
    count = made.get_vocab_size() + TIMES
    lists = {"suppress_tokens": [1, 2, end + 1], "begin_suppress_tokens": [220, end]}
    config = transformers.WhisperConfig(vocab_size=count, init_std=0.3, **sizes | special | lists | changed)
    model = transformers.WhisperForConditionalGeneration(config)
    for bias in (value for name, value in model.named_parameters() if name.endswith("bias")):
        torch.nn.init.normal_(bias, std=0.1)
    model.save_pretrained(folder)
    made.save(str(folder / "tokenizer.json"))
    transformers.WhisperFeatureExtractor(feature_size=config.num_mel_bins).save_pretrained(folder)
    generation = {"eos_token_id": end, "is_multilingual": multilingual} | lists
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


HEADS = {"attention_heads": 2, "ffn_dim": 32}
LAYOUTS = {
    "base": {},
    "large-v3": {"languages": [*LANGUAGES, "yue"], "num_mel_bins": 128},
    "large-v3-turbo": {"languages": [*LANGUAGES, "yue"], "num_mel_bins": 128, "encoder_layers": 3, "decoder_layers": 1},
    "base.en": {"multilingual": False},
}
"""Options of `write_whisper` by the model whose layout they give."""
