# The server of docs/serve.md on a CPU:
#   docker build --build-arg TORCH_INDEX=ADDRESS -t espnet-diverse .
#   docker run -p 127.0.0.1:8000:8000 -e ESPNET_DIVERSE_API_KEY -v /srv/models:/models:ro espnet-diverse --model mine=/models/mine.zip

FROM python:3.12-slim AS build
ARG TORCH_INDEX
WORKDIR /source
COPY setup.py pyproject.toml constraints.txt README.md LICENSE ./
COPY conf conf
COPY espnet_diverse espnet_diverse
RUN test -n "$TORCH_INDEX" || { echo "give --build-arg TORCH_INDEX=..., PyTorch's index of CPU builds" >&2; exit 1; }
RUN python -m venv /opt/espnet \
    && /opt/espnet/bin/pip install --no-cache-dir --index-url "$TORCH_INDEX" -c constraints.txt torch torchaudio \
    && /opt/espnet/bin/pip install --no-cache-dir -c constraints.txt '.[serve,vad,media]'

FROM python:3.12-slim
RUN useradd --system --uid 10001 --create-home server && install -d -o server /models
COPY --from=build /opt/espnet /opt/espnet
ENV PATH=/opt/espnet/bin:$PATH ESPNET_DIVERSE_CACHE=/home/server/cache
USER 10001
WORKDIR /home/server
VOLUME /models
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["espnet-diverse", "serve", "--host", "0.0.0.0"]
