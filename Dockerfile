# syntax=docker/dockerfile:1
# Both images: docker build --target ks-apiserver . and docker build --target ks-controller-manager .
# Without docker, `make image` builds the same. BASE may name an image of your own (for debugging, or a mirror); the programs need nothing from it.
ARG GO_IMAGE=golang:1.26
ARG BASE=scratch

FROM ${GO_IMAGE} AS build
WORKDIR /src
# Modules change less often than code.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY cmd cmd
COPY config config
COPY pkg pkg
ARG VERSION=dev
ARG COMMIT=
ARG BUILD_DATE=
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    V=kapis.dev/ks-apiserver/pkg/version && \
    CGO_ENABLED=0 go build -trimpath -o /out/ \
    -ldflags "-s -w -X $V.gitVersion=$VERSION -X $V.gitCommit=$COMMIT -X $V.buildDate=$BUILD_DATE" \
    ./cmd/ks-apiserver ./cmd/ks-controller-manager
# Identity providers and member clusters are reached over TLS; the number has no name in an empty image.
RUN mkdir -p /root-fs/etc/ssl/certs && \
    cp /etc/ssl/certs/ca-certificates.crt /root-fs/etc/ssl/certs/ && \
    echo 'nonroot:x:65532:65532::/:/sbin/nologin' > /root-fs/etc/passwd

FROM ${BASE} AS base
COPY --from=build /root-fs /
USER 65532:65532
ARG VERSION=dev
ARG COMMIT=
ARG BUILD_DATE=
LABEL org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT" \
      org.opencontainers.image.created="$BUILD_DATE"

FROM base AS ks-controller-manager
COPY --from=build /out/ks-controller-manager /ks-controller-manager
EXPOSE 8080 8081 8443
ENTRYPOINT ["/ks-controller-manager"]

FROM base AS ks-apiserver
COPY --from=build /out/ks-apiserver /ks-apiserver
EXPOSE 9090 9443
ENTRYPOINT ["/ks-apiserver"]
