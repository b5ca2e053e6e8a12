# All images, for amd64 and arm64 (--platform linux/amd64,linux/arm64):
#   docker build --target agent     -t plimsoll/agent     .
#   docker build --target evaluator -t plimsoll/evaluator .
#   docker build --target tools     -t plimsoll/tools     .
# The command `plimsoll` is in each: in tools with all subcommands, in the others with those of their program.
# The release adds SBOM and provenance (.github/workflows/release.yaml).

# The digest is that of the index with all platforms, for Python 3.11.16 of 2026-08-25. To take a newer image:
#   docker buildx imagetools inspect python:3.11-slim-bookworm
ARG BASE=python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b
FROM ${BASE} AS base
# SAFEPATH: modules are not imported from the working directory.
# The .pyc files are made below, once; at run time the root file system is read-only.
ENV PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PATH=/opt/plimsoll/bin:$PATH

FROM base AS wheel
# An index and a CA of your own, as for pip.
ARG PIP_INDEX_URL
ARG CA_CERTIFICATE
WORKDIR /src
COPY requirements.txt ./
# pip checks the hash of each download. Everything below is installed from these files, without a network.
RUN if [ -n "$CA_CERTIFICATE" ]; then printf '%s\n' "$CA_CERTIFICATE" > /tmp/ca.pem && export PIP_CERT=/tmp/ca.pem; fi \
 && python -m venv /opt/tools \
 && /opt/tools/bin/pip download --no-cache-dir --require-hashes --no-deps --only-binary :all: \
      --dest /wheels --requirement requirements.txt \
 && /opt/tools/bin/pip install --no-cache-dir --no-index --find-links /wheels hatchling
COPY pyproject.toml README.md LICENSE ./
COPY agent agent/
COPY collectors collectors/
COPY deploy deploy/
COPY evaluator evaluator/
COPY lab lab/
COPY plimsoll plimsoll/
COPY sandbox sandbox/
COPY wire wire/
RUN /opt/tools/bin/python -m hatchling build --target wheel --directory /dist

# Images get a virtual environment without pip and without the other programs. "unchecked" .pyc files are used without checking
# their sources, which cannot change there.
FROM wheel AS agent-installed
RUN python -m venv --without-pip /opt/plimsoll \
 && /opt/tools/bin/pip --python /opt/plimsoll/bin/python install --no-cache-dir --no-compile \
      --no-index --find-links /wheels "$(echo /dist/*.whl)[agent,gpu,systemd]" \
 && rm -r /opt/plimsoll/lib/python3*/site-packages/evaluator /opt/plimsoll/lib/python3*/site-packages/lab \
      /opt/plimsoll/lib/python3*/site-packages/sandbox \
      /opt/plimsoll/bin/plimsoll-evaluator /opt/plimsoll/bin/plimsoll-sandbox /opt/plimsoll/bin/kubectl* \
 && python -m compileall -q --invalidation-mode unchecked-hash /opt/plimsoll/lib

FROM wheel AS evaluator-installed
RUN python -m venv --without-pip /opt/plimsoll \
 && /opt/tools/bin/pip --python /opt/plimsoll/bin/python install --no-cache-dir --no-compile \
      --no-index --find-links /wheels "$(echo /dist/*.whl)[evaluator]" \
 && rm -r /opt/plimsoll/lib/python3*/site-packages/agent /opt/plimsoll/lib/python3*/site-packages/lab \
      /opt/plimsoll/lib/python3*/site-packages/sandbox \
      /opt/plimsoll/bin/plimsoll-agent /opt/plimsoll/bin/plimsoll-sandbox /opt/plimsoll/bin/kubectl* \
 && python -m compileall -q --invalidation-mode unchecked-hash /opt/plimsoll/lib

FROM wheel AS tools-installed
RUN python -m venv --without-pip /opt/plimsoll \
 && /opt/tools/bin/pip --python /opt/plimsoll/bin/python install --no-cache-dir --no-compile \
      --no-index --find-links /wheels "$(echo /dist/*.whl)[sandbox]" \
 && rm -r /opt/plimsoll/bin/kubectl* \
 && python -m compileall -q --invalidation-mode unchecked-hash /opt/plimsoll/lib

# Images have no shell, package manager and setuid files: release/slim.py removes them, and the rest is copied to empty images.
FROM base AS agent-root
COPY --from=agent-installed /opt/plimsoll /opt/plimsoll
COPY release/slim.py /opt/slim.py
RUN ["python", "/opt/slim.py"]

FROM base AS evaluator-root
COPY --from=evaluator-installed /opt/plimsoll /opt/plimsoll
# The command of Telemetry Aware Scheduling's own Deployment, so that changing its image is enough.
RUN ln -s /opt/plimsoll/bin/plimsoll-evaluator /extender
COPY release/slim.py /opt/slim.py
RUN ["python", "/opt/slim.py"]

FROM base AS tools-root
COPY --from=tools-installed /opt/plimsoll /opt/plimsoll
COPY release/slim.py /opt/slim.py
RUN ["python", "/opt/slim.py"]

FROM scratch AS agent
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="plimsoll-agent" \
      org.opencontainers.image.description="Plimsoll: the agent of a node" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=agent-root / /
ENV PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PATH=/opt/plimsoll/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
# An uncommon uid, other than the evaluator's: see SECURITY.md. deploy/ has the same numbers.
USER 61011:61011
EXPOSE 9100
ENTRYPOINT ["plimsoll-agent"]

FROM scratch AS evaluator
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="plimsoll-evaluator" \
      org.opencontainers.image.description="Plimsoll: the evaluator of a cluster" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=evaluator-root / /
ENV PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PATH=/opt/plimsoll/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
USER 61012:61012
EXPOSE 9001 9091 8080
ENTRYPOINT ["plimsoll-evaluator"]

FROM scratch AS tools
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="plimsoll-tools" \
      org.opencontainers.image.description="Plimsoll: the command plimsoll, to write, test and try policies" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=tools-root / /
ENV PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PATH=/opt/plimsoll/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
WORKDIR /work
USER 61013:61013
ENTRYPOINT ["plimsoll"]
