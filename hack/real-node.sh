#!/usr/bin/env bash
# Installs and builds what a real node needs, where this machine can have one. Where it cannot, this says nothing and succeeds:
# `bin/dev up --node real` says why, and starts the rest.
#
# usage: hack/real-node.sh BIN
set -euo pipefail
bin=${1:?"usage: $0 BIN"}
here=$(cd "$(dirname "$0")" && pwd)

[ "$(uname)" = Linux ] && ((EUID == 0)) || exit 0
"$here/install-test-servers.sh" node || true
"$bin/dev" check-node 2>/dev/null || exit 0
"$here/../tools/dev/build.sh" "$bin" node
