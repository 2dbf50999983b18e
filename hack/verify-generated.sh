#!/usr/bin/env bash
# Fails, and shows how, where deepcopy functions or CRDs differ from what the types in pkg/api generate.
# Works on a copy: the tree is not touched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r go.mod go.sum hack "$work"
mkdir -p "$work/pkg" "$work/tools" "$work/config/crd/bases"
cp -r pkg/api "$work/pkg"
cp -r tools/crdwords "$work/tools"
find "$work/pkg" -name 'zz_generated.*' -delete
"$work/hack/update-codegen.sh"

ok=true
diff -ru pkg/api "$work/pkg/api" || ok=false
diff -ru config/crd/bases "$work/config/crd/bases" || ok=false
# Each CRD has to be listed, or it is not installed.
diff <(cd config/crd && ls bases/*.yaml) <(sed -n 's/^  - \(bases\/\)/\1/p' config/crd/kustomization.yaml | sort) || ok=false
if ! $ok; then
  echo "Generated files differ from the types: run 'make generate' (hack/update-codegen.sh) and commit the result." >&2
  exit 1
fi
