#!/usr/bin/env bash
# Checks the Dockerfile, and builds both of its targets with buildah. Where buildah is missing, or its base image can't be had, this says so, and is no failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go -C tools/image run . lint "$PWD/Dockerfile"

base=${GO_IMAGE:-$(sed -n 's/^ARG GO_IMAGE=//p' Dockerfile)}
if ! command -v buildah >/dev/null; then
  echo "the Dockerfile was checked and not built: buildah is not installed"
  exit 0
fi
if ! timeout 300 buildah pull --quiet --policy ifmissing "$base" >/dev/null; then
  echo "the Dockerfile was checked and not built: its base image $base can't be had (GO_IMAGE names another one)"
  exit 0
fi
for target in ks-apiserver ks-controller-manager; do
  buildah build --layers --build-arg "GO_IMAGE=$base" --target "$target" --tag "$target:verify" .
done
