# nnkit with what it proves builds by: compilers and emulators. The vendor's TPU toolchain is added by
# `nnkit doctor --install tpu` into the volume /cache.
#
#   docker build -t nnkit .
#   docker run --rm -v "$PWD:/work" -v nnkit-cache:/cache --user "$(id -u):$(id -g)" nnkit run recipe.yaml
#   docker run --rm -p 127.0.0.1:8040:8040 -v nnkit-jobs:/jobs -v nnkit-cache:/cache nnkit \
#     serve --host 0.0.0.0 --token-file /jobs/token --folder /jobs
FROM python:3.12-slim-bookworm AS wheel
WORKDIR /source
RUN pip install --no-cache-dir build
COPY pyproject.toml setup.py README.md LICENSE ./
COPY nnkit nnkit
COPY targets targets
COPY recipes recipes
COPY cfg_templates cfg_templates
RUN python -m build --wheel --outdir /dist

FROM python:3.12-slim-bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev gcc-riscv64-unknown-elf qemu-system-misc \
    gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm \
 && rm -rf /var/lib/apt/lists/*
COPY --from=wheel /dist /dist
COPY requirements.lock /tmp/requirements.lock
RUN pip install --no-cache-dir -c /tmp/requirements.lock "$(ls /dist/*.whl)[solver,dask,serve]" && rm -r /dist
RUN useradd --create-home nnkit && mkdir -m 1777 /work && install -d -m 0777 /cache && install -d -o nnkit -m 0700 /jobs
USER nnkit
ENV NNKIT_CACHE=/cache NNKIT_CONFIG=/cache/config PYTHONUNBUFFERED=1
WORKDIR /work
ENTRYPOINT ["nnkit"]
CMD ["--help"]
