#!/usr/bin/env bash
# Runs every fuzz target of all modules for FUZZ_TIME each (30s), one after the other, on FUZZ_PROCS processors (2). FUZZ_PACKAGES names packages of this module
# in the place of all (./pkg/query/...), FUZZ_TARGETS is a regular expression of targets. What a target finds is kept in testdata/fuzz of its package, to be
# committed with the mend: from then on `go test` runs it. A failure does not end the run; those that failed are listed last.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
time=${FUZZ_TIME:-30s} procs=${FUZZ_PROCS:-2} targets=${FUZZ_TARGETS:-.}
read -ra packages <<<"${FUZZ_PACKAGES:-./cmd/... ./pkg/... ./tools/...}"
read -ra dev <<<"${DEV_PACKAGES:?make fuzz sets it}"
binaries=$(mktemp -d)
trap 'rm -rf "$binaries"' EXIT
failed=() count=0

# fuzz FOLDER PACKAGE...: the targets of packages of the module in a folder. Each package is compiled once. Only our own modules are instrumented for coverage
# (go test -fuzz would compile Kubernetes and all else anew with it, a quarter of an hour): inputs are kept for the new paths of our code that they reach.
fuzz() {
  cd "$root/$1"; shift
  local import dir files target list
  list=$(go list -f $'{{.ImportPath}}\t{{.Dir}}\t{{join .TestGoFiles " "}} {{join .XTestGoFiles " "}}' "$@") # a tree that does not list has no targets to pass
  while IFS=$'\t' read -r import dir files; do
    [ -n "${files// /}" ] || continue # a package without tests: sed would read the list in their place
    mapfile -t found < <(cd "$dir" && sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' $files | sort -u | { grep -E "$targets" || true; })
    [ ${#found[@]} -gt 0 ] || continue
    if ! GOMAXPROCS=$procs go test -c -gcflags='kapis.dev/...=-d=libfuzzer' -o "$binaries/fuzz.test" "$import"; then
      failed+=("$import: it does not compile")
      continue
    fi
    for target in "${found[@]}"; do
      count=$((count + 1))
      echo "=== $import $target"
      if ! (cd "$dir" && GOMAXPROCS=$procs "$binaries/fuzz.test" -test.run='^$' -test.fuzz="^$target\$" -test.fuzztime="$time" \
        -test.parallel="$procs" -test.fuzzcachedir="$(go env GOCACHE)/fuzz/$import"); then
        failed+=("$import $target")
      fi
    done
  done <<<"$list"
}

fuzz . "${packages[@]}"
if [ -z "${FUZZ_PACKAGES:-}" ]; then
  fuzz tools/dev "${dev[@]}"
  fuzz tools/logins ./...
fi

if [ "$count" -eq 0 ]; then
  echo "no fuzz target was found" >&2
  exit 1
fi
if [ ${#failed[@]} -gt 0 ]; then
  echo "${#failed[@]} of $count fuzz targets failed; what they found is in testdata/fuzz of their packages:" >&2
  printf '  %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "$count fuzz targets found nothing in $time each"
