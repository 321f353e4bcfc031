# The image of vgpu-webhook, by `docker build .`, `podman build .` or `buildah build .`: each step is a script of deploy/image/.
# `make release` builds it so that the same commit gives the same bytes.
ARG PYTHON=docker.io/library/python:3.13-slim

FROM ${PYTHON} AS build
ARG SOURCE_DATE_EPOCH=0
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH}
COPY pyproject.toml README.md LICENSE /source/
COPY deploy/image /source/deploy/image
COPY certs /source/certs
COPY webhook /source/webhook
RUN ["/source/deploy/image/build.sh", "/source", "/wheels"]
RUN ["/source/deploy/image/install.sh", "/source", "/wheels", "/opt/vgpu-webhook"]
USER 65532:65532
RUN ["/source/deploy/image/check.sh", "/opt/vgpu-webhook"]

FROM ${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="vgpu-webhook" \
      org.opencontainers.image.description="A Kubernetes admission webhook that rewrites a pod's GPU share into what its node really runs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/vgpu-webhook/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/vgpu-webhook /opt/vgpu-webhook
USER 65532:65532
WORKDIR /
EXPOSE 8443 8080
ENTRYPOINT ["/opt/vgpu-webhook/bin/vgpu-webhook"]
CMD ["serve"]
