#!/usr/bin/env bash
# Installs (hack/install.sh), and runs both programs in the cluster of KUBECONFIG, as the kustomization OVERLAY says. Running it again after
# a new build is an upgrade.
#
# With IMAGE_REGISTRY and IMAGE_TAG, as `make push` had them, the images are those that it pushed, unless OVERLAY names images of its own.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
. "$root/hack/lib.sh"

OVERLAY=${OVERLAY:-config/default}
IMAGE_REGISTRY=${IMAGE_REGISTRY:-}
IMAGE_TAG=${IMAGE_TAG:-latest}
work=$(mktemp -d)
work=$(cd "$work" && pwd -P)
trap 'rm -rf "$work"' EXIT

cd "$root"
kustomization=$OVERLAY
if [[ -n $IMAGE_REGISTRY ]]; then
  resource=$OVERLAY
  if [[ -d $OVERLAY ]]; then
    # kustomize takes no absolute path of a folder.
    resource=$(sed 's|/[^/]*|../|g' <<<"$work")$(cd "$OVERLAY" && pwd -P | sed 's|^/||')
  fi
  {
    echo "resources: [\"$resource\"]"
    echo "images:"
    for program in ks-apiserver ks-controller-manager; do
      echo "- {name: $program, newName: \"$IMAGE_REGISTRY/$program\", newTag: \"$IMAGE_TAG\"}"
    done
  } >"$work/kustomization.yaml"
  kustomization=$work
fi
objects=$work/objects
"${KUBECTL[@]}" kustomize "$kustomization" >"$objects"
if grep -qE '^ *(- )?image: "?ks-(apiserver|controller-manager):latest"?$' "$objects"; then
  echo "Nothing was changed: $OVERLAY names no images, and there are none called ks-apiserver:latest. Give those that make push pushed" >&2
  echo "(make deploy IMAGE_REGISTRY=registry.example.com/team), or deploy an overlay that names images: docs/operations.md." >&2
  exit 1
fi

images=$(sed -nE 's/^ *(- )?image: "?([^"]*)"?$/\2/p' "$objects")
for program in ks-apiserver ks-controller-manager; do
  if [[ -n $IMAGE_REGISTRY ]] && ! grep -qxF "$IMAGE_REGISTRY/$program:$IMAGE_TAG" <<<"$images"; then
    echo "$OVERLAY names another image of $program: IMAGE_REGISTRY and IMAGE_TAG count for nothing there."
  fi
done

KUBECTL="${KUBECTL[*]}" "$root/hack/install.sh" # an array is not exported
# Fields that somebody else has set since, such as an image of kubectl set image, are set again: the kustomization is what counts.
"${KUBECTL[@]}" apply --server-side --force-conflicts --field-manager=ks-install -f "$objects"
