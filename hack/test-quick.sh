#!/usr/bin/env bash
# Tests the packages of the main module whose files differ from BASE (default: where this branch left origin/main, else the last commit),
# files that are not committed too: vet, the import rule, and their unit tests without -race. The end-to-end tests are not run, nor the
# packages that import what has changed; make test runs everything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base=${BASE:-$(git merge-base HEAD origin/main 2>/dev/null || echo HEAD)}
if ! git rev-parse --verify --quiet "$base^{commit}" >/dev/null; then
  echo "BASE=$base is no commit" >&2
  exit 1
fi
changed=$({ git diff --name-only "$base" --; git ls-files --others --exclude-standard; } | sed -n 's|/[^/]*\.go$||p' | sort -u)
packages=()
for dir in $changed; do
  case $dir in
  */testdata* | tools/e2e* | tools/dev* | tools/logins* | tools/image* | tools/manifest* | tools/helm3* | tools/charts* | tools/versitygw* | tools/podinfo*) continue ;; # other modules, and what needs a control plane
  esac
  if compgen -G "$dir/*.go" >/dev/null; then packages+=("./$dir"); fi
done
if ((${#packages[@]} == 0)); then
  echo "no package of the main module differs from $base"
  exit 0
fi
echo "testing what differs from $base: ${packages[*]}"
go run ./tools/tiers
go test -ldflags=-s "${packages[@]}"
