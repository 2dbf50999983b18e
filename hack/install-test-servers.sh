#!/usr/bin/env bash
# Installs the real programs that tests talk to, where they are missing: OpenLDAP, Redis, Chromium, Node.js and iproute2, as Debian has them.
# With "node" it installs what a real node needs instead: containerd, runc and the CNI plugins.
#
# usage: hack/install-test-servers.sh [node]
set -euo pipefail

declare -A package=([slapd]=slapd [ldapadd]=ldap-utils [redis-server]=redis-server [chromium]=chromium [node]=nodejs [npm]=npm
  [ip]=iproute2)
if [ "${1:-}" = node ]; then
  package=([containerd]=containerd [ctr]=containerd [runc]=runc [/usr/lib/cni/bridge]=containernetworking-plugins [nft]=nftables
    [iptables]=iptables [ip]=iproute2 [busybox]=busybox-static)
fi
PATH="$PATH:/usr/sbin"
missing=()
for program in "${!package[@]}"; do
  command -v "$program" >/dev/null || missing+=("${package[$program]}")
done
((${#missing[@]})) || exit 0

if ! command -v apt-get >/dev/null; then
  echo "the tests need ${missing[*]}, as Debian names the packages; install them, and run the tests again" >&2
  exit 1
fi
as_root=()
((EUID == 0)) || as_root=(sudo -n)
echo "installing ${missing[*]} for the tests, about a minute"
# No server is to be started by its package: the tests start their own, on ports of their own.
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
