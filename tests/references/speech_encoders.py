"""Pretrained speech encoders with random weights, written by transformers: 2 layers, 16 wide."""

import torch
import transformers

SIZE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
CONVOLUTIONS = {"conv_dim": (16, 16, 16), "conv_stride": (5, 8, 8), "conv_kernel": (10, 8, 8)}
POSITIONS = {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
SAMPLES = SIZE | CONVOLUTIONS | POSITIONS | {"vocab_size": 8, "initializer_range": 0.2}
WHISPER = {"d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 32, "num_mel_bins": 16}
WHISPER |= {"decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 32, "max_source_positions": 100}
WHISPER |= {"vocab_size": 20, "init_std": 0.2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WHISPER |= {"decoder_start_token_id": 1, "begin_suppress_tokens": None}
OPTIONS = {
    "data2vec-audio": SAMPLES | {"conv_pos_kernel_size": 3, "num_conv_pos_embeddings": 2},
    "hubert": SAMPLES,
    "unispeech-sat": SAMPLES,
    "wav2vec2": SAMPLES | {"feat_extract_norm": "layer", "do_stable_layer_norm": True},
    "wav2vec2-bert": SIZE | {"feature_projection_input_dim": 160, "initializer_range": 0.2},
    "wavlm": SAMPLES | {"num_buckets": 8, "max_bucket_distance": 16},
    "whisper": WHISPER,
}
"""Options by type."""


def write_encoder(folder, kind="wav2vec2", **changed):
    """Write an encoder and what prepares its samples; return the folder."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **(OPTIONS[kind] | changed))
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    if kind == "whisper":
        made = transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=2)
    elif kind == "wav2vec2-bert":
        made = transformers.SeamlessM4TFeatureExtractor()
    else:
        made = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=kind == "wav2vec2")
    made.save_pretrained(folder)
    return folder
