# syntax=docker/dockerfile:1
# An image that serves a run as an ordinary user; docs/container.md says how it is built and run.
#
#   docker build --build-arg TORCH_INDEX=ADDRESS --tag gelgt .
#
# TORCH_INDEX is the address of PyTorch's CPU wheels, which PyTorch's installation page names: without it pip takes the
# usual wheels, which bring several gigabytes of CUDA.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ARG TORCH_INDEX=""
ARG EXTRAS="serve,postgres,mysql"
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CACHE_DIR=/pip
RUN python -m venv /opt/gelgt
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN --mount=type=cache,target=/pip \
    PIP_EXTRA_INDEX_URL="${TORCH_INDEX}" /opt/gelgt/bin/pip install --constraint constraints.txt ".[${EXTRAS}]"

FROM python:${PYTHON}-slim
# LightGBM, which training needs and predictions do not, links to the system's OpenMP.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 gelgt \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/cache/gelgt --shell /usr/sbin/nologin gelgt \
    && install --directory --owner 10001 --group 10001 /var/cache/gelgt /runs
COPY --from=build /opt/gelgt /opt/gelgt
COPY container/entrypoint.py container/health.py /opt/gelgt/lib/
# The root file system may be read-only: what gelgt imports and compiles goes to the cache, which is a volume, and what
# DuckDB spills to /tmp. HOME lies in the cache too, for users without a name (docker run --user).
ENV PATH=/opt/gelgt/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/var/cache/gelgt \
    GELGT_CACHE=/var/cache/gelgt/sources \
    NUMBA_CACHE_DIR=/var/cache/gelgt/numba \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
VOLUME /var/cache/gelgt
WORKDIR /runs
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=2m --retries=3 \
    CMD ["python", "/opt/gelgt/lib/health.py", "8000"]
ENTRYPOINT ["python", "/opt/gelgt/lib/entrypoint.py"]
CMD ["serve", "/runs/run", "--host", "0.0.0.0", "--port", "8000", "--token-env", "GELGT_TOKEN"]
