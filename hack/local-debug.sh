#!/usr/bin/env bash
# Debugs ks-apiserver on this machine against a remote cluster.
#
#   hack/local-debug.sh [fetch]   fetches the configuration of the ks-apiserver that runs in the cluster, and prints the commands that
#                                 run one on this machine in its place. It starts nothing, and changes nothing in the cluster.
#   hack/local-debug.sh exchange  sends what comes to its Services to this machine. Only where nodes of the cluster reach this machine:
#                                 for other clusters, fetch prints what ktctl and telepresence need.
#   hack/local-debug.sh recover   sends it to the pods again, also after this machine was switched off meanwhile
#
#   --kubeconfig FILE             of the cluster (default $KUBECONFIG, ~/.kube/config)
#   --namespace NAME              of ks-apiserver (default kubesphere-system)
#   --port N, --tls-port N        where ks-apiserver listens here (default 9090, 9443)
#   --output FOLDER               fetch: where the configuration is written (default .dev/debug)
#   --address IP                  exchange: of this machine, as nodes reach it (default: that of its packets to a node of ks-apiserver)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
fail() { echo "local-debug: $*" >&2 && exit "${status:-1}"; }

command=fetch
kubeconfig=${KUBECONFIG:-$HOME/.kube/config}
output=$root/.dev/debug # ignored by git, removed by make clean-dev
namespace=kubesphere-system
port=9090
tls_port=9443
address=
case ${1:-} in
fetch | exchange | recover)
  command=$1
  shift
  ;;
esac
while (($# > 0)); do
  case $1 in
  --kubeconfig | --output | --namespace | --port | --tls-port | --address)
    (($# > 1)) || status=2 fail "$1 needs a value"
    name=${1#--}
    declare "${name//-/_}=$2"
    shift 2
    ;;
  -h | --help) usage && exit 0 ;;
  *) echo "local-debug: unknown argument $1" >&2 && usage >&2 && exit 2 ;;
  esac
done
for n in "$port" "$tls_port"; do
  [[ $n =~ ^[0-9]{1,5}$ ]] && ((n > 0 && n < 65536)) || status=2 fail "$n is not a port"
done

read -r -a KUBECTL <<<"${KUBECTL:-kubectl}"
KUBECTL+=(--kubeconfig "$kubeconfig" --namespace "$namespace")
where=$(printf -- '--kubeconfig %q --namespace %q' "$kubeconfig" "$namespace") # for the commands that are printed

# The Services of ks-apiserver: that of its callers, and that of kube-apiserver, which is there in aggregated mode only.
services=(ks-apiserver ks-apiserver-aggregated)
# While a Service is exchanged, this annotation has its own selector, and its selector this label, which no pod has.
note=kapis.dev/local-debug-selector
moved='{"kapis.dev/local-debug":"exchanged"}'

# present SERVICE tells whether it is there.
present() { [[ -n $("${KUBECTL[@]}" get service "$1" --ignore-not-found -o name) ]]; }

# exchanged SERVICE prints its own selector, as JSON, if it is exchanged.
exchanged() { "${KUBECTL[@]}" get service "$1" -o go-template="{{with .metadata.annotations}}{{with index . \"$note\"}}{{.}}{{end}}{{end}}"; }

# own_address prints the address from which this machine sends to a node on which ks-apiserver runs.
own_address() {
  local name node=
  name=$("${KUBECTL[@]}" get endpointslices -l kubernetes.io/service-name=ks-apiserver -o go-template='{{range .items}}{{range .endpoints}}{{with .nodeName}}{{.}} {{end}}{{end}}{{end}}')
  [[ -z $name ]] || node=$("${KUBECTL[@]}" get node "${name%% *}" -o jsonpath='{.status.addresses[?(@.type=="InternalIP")].address}')
  [[ -n $node ]] || fail "no pod of Service $namespace/ks-apiserver runs on a node with an address: name this machine's with --address"
  ip -o route get "$node" | sed -n 's/.* src \([^ ]*\).*/\1/p'
}

# ports SERVICE prints the ports of its EndpointSlice, in YAML: 443, 9443 and what is called https is where we serve TLS.
ports() {
  local name number target here
  "${KUBECTL[@]}" get service "$1" -o go-template='{{range .spec.ports}}{{or .name "-"}} {{.port}} {{.targetPort}}{{"\n"}}{{end}}' |
    while read -r name number target; do
      here=$port
      case $name/$number/$target in https* | */443/* | */9443/* | */https | */9443) here=$tls_port ;; esac
      echo "- {name: \"${name#-}\", port: $here, protocol: TCP}"
    done
}

# answering fails unless ks-apiserver answers on this machine, at an address and the port of what is printed by ports.
answering() {
  local at
  for at in $(sed -n 's/.*port: \([0-9]*\),.*/\1/p' <<<"$1" | sort -u); do
    (exec 3<>"/dev/tcp/$address/$at") 2>/dev/null ||
      fail "nothing listens on $address:$at: start ks-apiserver first ($0 fetch $where prints how), with --bind-address 0.0.0.0 or that address"
  done
}

selector_of() { "${KUBECTL[@]}" get service "$1" -o jsonpath='{.spec.selector}'; }

# select_pods SERVICE FROM TO moves its selector, if it still is as it was read. An answer may be lost of what was done: only what is there afterwards says.
select_pods() {
  "${KUBECTL[@]}" patch service "$1" --type=json \
    -p "[{\"op\":\"test\",\"path\":\"/spec/selector\",\"value\":$2},{\"op\":\"replace\",\"path\":\"/spec/selector\",\"value\":$3}]" >/dev/null ||
    [[ $(selector_of "$1") == "$3" ]]
}

# exchange SERVICE: first this machine is one more endpoint, and then the only one, so that no request fails.
exchange() {
  local selector now slice=$1-local-debug
  selector=$(selector_of "$1")
  [[ $selector == "{"* ]] || fail "Service $namespace/$1 has no selector: another program leads it somewhere"
  "${KUBECTL[@]}" annotate service "$1" "$note=$selector" >/dev/null
  "${KUBECTL[@]}" apply -f - >/dev/null <<YAML
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: $slice
  labels: {kubernetes.io/service-name: $1, endpointslice.kubernetes.io/managed-by: local-debug.kapis.dev}
addressType: $([[ $address == *:* ]] && echo IPv6 || echo IPv4)
endpoints: [{addresses: ["$address"], conditions: {ready: true}}]
ports:
$2
YAML
  if ! select_pods "$1" "$selector" "$moved"; then
    # The annotation may have the only copy of the selector: what this read says counts, since the one before may have failed.
    now=$(selector_of "$1") || fail "Service $namespace/$1 can't be read, and may be exchanged: $0 recover $where, when it can"
    if [[ $now != "$moved" ]]; then
      "${KUBECTL[@]}" delete endpointslice "$slice" --ignore-not-found >/dev/null
      "${KUBECTL[@]}" annotate service "$1" "$note-" >/dev/null
      fail "Service $namespace/$1 was changed at the same time: try again"
    fi
  fi
  echo "exchanged: Service $namespace/$1 leads to $address"
}

# recover SERVICE: first the pods are endpoints again, and then this machine is none.
recover() {
  local selector=$2 left=120 ready now
  if ! select_pods "$1" "$moved" "$selector"; then
    # The annotation has the only copy of the selector: it goes only when the Service has one again.
    now=$(selector_of "$1") || fail "Service $namespace/$1 can't be read: try again"
    [[ $now != "$moved" ]] || fail "the selector of Service $namespace/$1 can't be written: try again"
    echo "local-debug: Service $namespace/$1 has another selector already, which stays" >&2
  fi
  while :; do
    ready=$("${KUBECTL[@]}" get endpointslices -l "kubernetes.io/service-name=$1,endpointslice.kubernetes.io/managed-by!=local-debug.kapis.dev" \
      -o jsonpath='{.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}')
    [[ -z $ready ]] || break
    ((left-- > 0)) || { echo "local-debug: no pod of Service $namespace/$1 is ready" >&2 && break; }
    sleep 1
  done
  "${KUBECTL[@]}" delete endpointslice "$1-local-debug" --ignore-not-found >/dev/null
  "${KUBECTL[@]}" annotate service "$1" "$note-" >/dev/null
  echo "recovered: Service $namespace/$1 leads to ${ready:-no pod}"
}

case $command in
exchange)
  present ks-apiserver || fail "there is no Service $namespace/ks-apiserver; give --namespace, or the right --kubeconfig"
  for service in "${services[@]}"; do
    if present "$service" && [[ -n $(exchanged "$service") ]]; then fail "Service $namespace/$service is exchanged already: $0 recover $where, first"; fi
  done
  address=${address:-$(own_address)}
  case $address in
  "") fail "this machine has no route to the nodes: name its address with --address, or use ktctl or telepresence" ;;
  127.* | ::1 | localhost) status=2 fail "nodes do not reach this machine at $address: name the address that they reach it at" ;;
  esac
  declare -A wanted=()
  for service in "${services[@]}"; do
    present "$service" || continue
    wanted[$service]=$(ports "$service")
    answering "${wanted[$service]}"
  done
  for service in "${services[@]}"; do
    [[ -z ${wanted[$service]:-} ]] || exchange "$service" "${wanted[$service]}"
  done
  echo "The way back: $0 recover $where"
  exit
  ;;
recover)
  found=
  for service in "${services[@]}"; do
    present "$service" || continue
    selector=$(exchanged "$service")
    [[ -n $selector ]] || continue
    found=yes
    recover "$service" "$selector"
  done
  [[ -n $found ]] || echo "nothing in $namespace is exchanged"
  exit
  ;;
esac

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
  mkdir -p "$3" || exit 1
  while IFS= read -r key; do
    # A key has no slash; dots alone would leave the folder.
    [[ $key != . && $key != .. ]] || continue
    value="index .data \"$key\""
    [[ $1 != secret ]] || value+=" | base64decode"
    # The caller asks for the status, and so nothing but this ends the script.
    "${KUBECTL[@]}" get "$1" "$2" -o go-template="{{$value}}" >"$3/$key" || exit 1
    echo "fetched $3/$key"
  done <<<"$keys"
}

# As the Deployments have it: the Secret counts, and the ConfigMap where there is none.
fetch secret kubesphere-config "$output" || fetch configmap kubesphere-config "$output" || {
  echo "local-debug: there is no Secret or ConfigMap kubesphere-config in $namespace; give --namespace, or the right --kubeconfig" >&2
  exit 1
}
# What gateways of projects are made from, where they are. The configuration names the folder that the pods have it in.
environment=
if fetch configmap ks-router-config "$output/ingress-controller"; then
  environment="KUBESPHERE_GATEWAY_TEMPLATES=$(realpath "$output/ingress-controller") "
fi

secure=
if present ks-apiserver-aggregated; then secure=" --secure-port $tls_port"; fi

cat <<TEXT

1. Run ks-apiserver here, against that cluster:

   $environment$root/bin/ks-apiserver --config $output --kubeconfig $kubeconfig --insecure-port $port$secure

   (make build makes it.) Or in a debugger:

   (cd $root && ${environment}dlv debug --wd $PWD ./cmd/ks-apiserver -- --config $output --kubeconfig $kubeconfig --insecure-port $port$secure)

2. Send the cluster's traffic to it, with one of:

   $0 exchange $where --port $port --tls-port $tls_port   # where nodes reach this machine; nothing to install
   ktctl exchange ks-apiserver --expose $port:9090,$tls_port:9443 -n $namespace
   telepresence connect -n $namespace && telepresence intercept ks-apiserver --port $port:9090

3. Ask it:

   curl -H "Authorization: Bearer \$TOKEN" http://127.0.0.1:$port/kapis/resources.kubesphere.io/v1alpha3/namespaces

4. The way back:

   $0 recover $where   # also after this machine was switched off meanwhile
   ktctl recover ks-apiserver -n $namespace   # the service goes to the cluster's own pods again
   ktctl clean -n $namespace                  # what a killed ktctl left behind
   telepresence leave ks-apiserver; telepresence quit

$output holds secrets: delete it when you are done.
TEXT
