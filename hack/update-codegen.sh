#!/usr/bin/env bash
# Generates deepcopy functions (pkg/api) and CRDs (config/crd/bases) from the types in pkg/api.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

controller_gen=(go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0)
crds=${CRD_DIR:-config/crd/bases}

# The two generators are one run: they share the parsed packages.
"${controller_gen[@]}" \
  object:headerFile=hack/boilerplate.go.txt \
  crd \
  paths=./pkg/api/... \
  output:crd:artifacts:config="$crds"

# What the words of rules may be: the type of a rule is of Kubernetes, and has no markers.
go run ./tools/crdwords "$crds"
