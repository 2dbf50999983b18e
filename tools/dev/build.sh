#!/bin/sh
# Builds OUTDIR/dev, the development control plane, and OUTDIR/kubectl; or, with "node", OUTDIR/node and OUTDIR/pause, the programs
# of a real node.
#
# usage: tools/dev/build.sh OUTDIR [node]
#
# The first build compiles Kubernetes and takes minutes, so it says what to expect and how long so far. A build that nothing has
# changed for takes a few milliseconds.
set -eu

out=${1:?"usage: $0 OUTDIR [node]"}
what=${2:-dev}
case $what in
dev) of="control plane" ;;
node) of="real node" ;;
*)
	echo "usage: $0 OUTDIR [node]" >&2
	exit 2
	;;
esac
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")"

# Constant values: clients read them from /version, and a build with equal inputs stays cached.
version=v1.37.1
commit=0000000000000000000000000000000000000000
built=1970-01-01T00:00:00Z
ldflags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	ldflags="$ldflags -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=37"
	ldflags="$ldflags -X $package.gitCommit=$commit -X $package.gitTreeState=clean -X $package.buildDate=$built"
done
export CGO_ENABLED=0

stamp=$out/.$what.stamp
inputs=$({
	go env GOVERSION GOOS GOARCH
	find . -name '*.go' ! -name '*_test.go' -o -name go.mod -o -name go.sum -o -name build.sh | LC_ALL=C sort | xargs cat
} | cksum)
if [ -x "$out/$what" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$inputs" ]; then
	exit 0
fi

. ../../hack/progress.sh

# As in the Makefile: the compiler takes less time where it collects its garbage more seldom.
build() { GOGC=400 go build -trimpath "$@"; }
list() { go list -deps ./... >/dev/null; }
# Renamed into place, so that a running control plane keeps its file and an interrupted build leaves the old one.
link_dev() {
	build -ldflags "$ldflags" -o "$out/.new/" . ./kubectl && mv "$out/.new/dev" "$out/.new/kubectl" "$out" && rmdir "$out/.new"
}
link_node() {
	build -ldflags "-s -w" -o "$out/pause" ./pause
	build -ldflags "$ldflags" -o "$out/.node.new" ./node && mv "$out/.node.new" "$out/node"
}

if [ "$what" = node ]; then
	progress "$of: modules" "half a minute the first time, to download them" list
	progress "$of: kubelet" "about 3 minutes the first time on two cores" build k8s.io/kubernetes/cmd/kubelet/app
	progress "$of: kube-proxy" "about half a minute the first time" build k8s.io/kubernetes/cmd/kube-proxy/app
	progress "$of: bin/node" "linking, about 20 seconds" link_node
	printf '%s' "$inputs" >"$stamp"
	exit 0
fi

progress "$of: modules" "about a minute the first time, to download them" list
# In one go: built one after the other, each would end with packages that wait for each other, on one processor.
progress "$of: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok and kubectl" "some 5 minutes the first time on two cores" link_dev

printf '%s' "$inputs" >"$stamp"
