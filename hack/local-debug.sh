#!/usr/bin/env bash
# Fetches the configuration of the ks-apiserver that runs in a cluster, and prints the commands that run one on this
# machine in its place: it starts nothing and changes nothing in the cluster.
#
#   hack/local-debug.sh [--kubeconfig FILE] [--output FOLDER] [--namespace kubesphere-system] [--port 9090]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

kubeconfig=${KUBECONFIG:-$HOME/.kube/config}
output=$root/.dev/debug # ignored by git, removed by make clean-dev
namespace=kubesphere-system
port=9090
while (($# > 0)); do
  case $1 in
  --kubeconfig | --output | --namespace | --port)
    (($# > 1)) || { echo "local-debug: $1 needs a value" >&2 && exit 2; }
    declare "${1#--}=$2"
    shift 2
    ;;
  -h | --help) usage && exit 0 ;;
  *) echo "local-debug: unknown argument $1" >&2 && usage >&2 && exit 2 ;;
  esac
done

read -r -a KUBECTL <<<"${KUBECTL:-kubectl}"
KUBECTL+=(--kubeconfig "$kubeconfig" --namespace "$namespace")

# The files hold secrets.
umask 077
mkdir -p "$output"

# fetch KIND NAME FOLDER writes each key of a Secret or ConfigMap to a file of that name.
fetch() {
  local key keys value
  keys=$("${KUBECTL[@]}" get "$1" "$2" --ignore-not-found \
    -o go-template='{{range $key, $value := .data}}{{$key}}{{"\n"}}{{end}}') ||
    { echo "local-debug: cannot read $1 $namespace/$2 with $kubeconfig" >&2 && exit 1; }
  [[ -n $keys ]] || return 1
  mkdir -p "$3"
  while IFS= read -r key; do
    # A key has no slash; dots alone would leave the folder.
    [[ $key != . && $key != .. ]] || continue
    value="index .data \"$key\""
    [[ $1 != secret ]] || value+=" | base64decode"
    "${KUBECTL[@]}" get "$1" "$2" -o go-template="{{$value}}" >"$3/$key"
    echo "fetched $3/$key"
  done <<<"$keys"
}

# As the Deployments have it: the Secret counts, and the ConfigMap where there is none.
fetch secret kubesphere-config "$output" || fetch configmap kubesphere-config "$output" || {
  echo "local-debug: there is no Secret or ConfigMap kubesphere-config in $namespace; give --namespace, or the right --kubeconfig" >&2
  exit 1
}
fetch configmap ks-router-config "$output/ingress-controller" || true # release 3.0 only

cat <<TEXT

1. Run ks-apiserver here, against that cluster:

   $root/bin/ks-apiserver --config $output --kubeconfig $kubeconfig --insecure-port $port

   (make build makes it; in a debugger, give cmd/ks-apiserver the same arguments.)

2. Send the cluster's traffic to it, with one of:

   ktctl exchange ks-apiserver --expose $port:9090 -n $namespace
   telepresence connect -n $namespace && telepresence intercept ks-apiserver --port $port:9090

3. Ask it:

   curl -H "Authorization: Bearer \$TOKEN" http://127.0.0.1:$port/kapis/resources.kubesphere.io/v1alpha3/namespaces

4. The way back:

   ktctl recover ks-apiserver -n $namespace   # the service goes to the cluster's own pods again
   ktctl clean -n $namespace                  # what a killed ktctl left behind
   telepresence leave ks-apiserver; telepresence quit

$output holds secrets: delete it when you are done.
TEXT
