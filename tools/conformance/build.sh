#!/bin/sh
# Builds OUTDIR/e2e.test, Kubernetes' own conformance tests, OUTDIR/ginkgo, which runs them side by side, and OUTDIR/conformance.
#
# usage: tools/conformance/build.sh OUTDIR
set -eu

out=${1:?"usage: $0 OUTDIR"}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")"

# As tools/dev/build.sh has them: the tests compare their version with the server's, and the packages of both are compiled once.
version=v1.37.1
ldflags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	ldflags="$ldflags -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=37"
done
export CGO_ENABLED=0

. ../../hack/progress.sh

list() { go list -deps . k8s.io/kubernetes/test/e2e github.com/onsi/ginkgo/v2/ginkgo >/dev/null; }
tests() {
	go test -c -trimpath -vet=off -ldflags "$ldflags" -o "$out/.e2e.test.new" k8s.io/kubernetes/test/e2e && mv "$out/.e2e.test.new" "$out/e2e.test"
}

progress "conformance: modules" "half a minute the first time, to download them" list
progress "conformance: ginkgo" "half a minute the first time" go build -trimpath -o "$out/ginkgo" github.com/onsi/ginkgo/v2/ginkgo
progress "conformance: e2e.test" "some minutes the first time" tests
progress "conformance: the comparison" "seconds" go build -trimpath -o "$out/conformance" .
