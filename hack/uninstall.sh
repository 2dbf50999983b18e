#!/usr/bin/env bash
# Takes away from the cluster of KUBECONFIG what hack/install.sh applied, and nothing else: objects that were there
# before it stay, and so does what holds data of people. That is the CRDs (users, workspaces and sessions live in
# them), the workspace system-workspace, the Secret kubesphere-config and the namespace kubesphere-system.
#
# PURGE=yes takes these away too, and all users, roles and workspaces with them. Nothing is ever deleted along with its
# owner: namespaces that belong to a workspace stay.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/hack/lib.sh"

PURGE=${PURGE:-no}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# remove CASCADE FILES... deletes the objects, does not wait for finalizers, and says how many they were.
remove() {
  local cascade=$1 file args=()
  shift
  (($# > 0)) || return 0
  for file in "$@"; do args+=(-f "$file"); done
  quietly delete --ignore-not-found --cascade="$cascade" --wait=false -o name "${args[@]}"
  echo "Deleted $# objects: $(for file in "$@"; do title "$file"; done | awk '{n[$1]++} END{for (k in n) {printf "%s%d %s", s, n[k], k; s=", "}}')."
}

# finalized CRD prints the objects of a kind that have finalizers of ours: their other finalizers, a tab, and the object's name as JSON.
# A kind that is gone already has none.
finalized() {
  { "${KUBECTL[@]}" get "$1" --all-namespaces --ignore-not-found -o go-template='{{range .items}}{{if .metadata.finalizers}}{{printf "{\"apiVersion\":%q,\"kind\":%q,\"metadata\":{\"name\":%q" .apiVersion .kind .metadata.name}}{{with .metadata.namespace}}{{printf ",\"namespace\":%q" .}}{{end}}}}{{range .metadata.finalizers}} {{.}}{{end}}{{"\n"}}{{end}}{{end}}' 2>/dev/null || true; } |
    awk '{
      others = ""; ours = 0
      for (i = 2; i <= NF; i++) {
        if ($i ~ /^finalizers\.kubesphere\.io\// || $i == "finalizer.cluster.kubesphere.io" || $i ~ /^(categories|helmrelease|storeCleanFinalizer)\.application\.kubesphere\.io$/ || $i ~ /^kubesphere\.io\/(cascading-deletion|(installplan|extension|repository)-protection)$/) ours = 1
        else others = others (others == "" ? "" : ",") "\"" $i "\""
      }
      if (ours) print others "\t" $1
    }'
}

# release CRD takes our finalizers off all objects of a kind: one kubectl for hundreds of them, and a few at a time, since there may be
# one object for each user of a company. Some may go meanwhile, which kubectl calls an error; so what is left is looked for again.
release() {
  local kind=$1 round others file folder=$work/release
  for round in 1 2 3 4; do
    rm -rf "$folder"
    mkdir "$folder"
    finalized "$kind" >"$folder/all"
    [[ -s $folder/all ]] || return 0
    [[ $round != 4 ]] || break
    while IFS= read -r others; do
      rm -f "$folder"/part.*
      awk -F'\t' -v others="$others" '$1 == others {print $2}' "$folder/all" | split -l 500 -a 4 --additional-suffix=.json - "$folder/part."
      for file in "$folder"/part.*; do printf '%s\0' "$file"; done |
        xargs -0 -P 4 -n 1 "${KUBECTL[@]}" patch --type=merge -p "{\"metadata\":{\"finalizers\":[$others]}}" -o name -f >/dev/null 2>>"$folder/errors" || true
    done < <(cut -f 1 "$folder/all" | sort -u)
    cp "$folder/errors" "$work/errors"
  done
  echo "Removing the finalizers of $(wc -l <"$folder/all") objects of $kind failed. kubectl said:" >&2
  head -n 5 "$work/errors" >&2
  return 1
}

"${KUBECTL[@]}" get --raw=/version >/dev/null # says what is wrong with the cluster, once
render config/crd "$work/crd"
render config/install "$work/install"
render config/console "$work/console"
mv "$work"/console/* "$work/install/"

# The kinds of an object whose CRD is gone are unknown to kubectl.
known=$("${KUBECTL[@]}" get crds -o name)
for file in "$work"/crd/*; do
  name=$(awk '/^  name: /{print $2; exit}' "$file")
  ! grep -q "/$name\$" <<<"$known" || continue
  kind=$(awk '/^    kind: /{print $2; exit}' "$file")
  { grep -l "^apiVersion: ${name#*.}/" "$work"/install/* | xargs -r grep -lx "kind: $kind" || true; } | xargs -r rm -f
done

# read_mine ARRAY DIR sets ARRAY to the files that mine DIR prints. A process substitution would hide that the cluster can't be read.
read_mine() {
  local -n into=$1
  local list
  list=$(mine "$2")
  into=()
  [[ -z $list ]] || mapfile -t into <<<"$list"
}

# Everything is read, and a purge refused, before anything is deleted.
read_mine found "$work/install"
read_mine crds "$work/crd"
if [[ $PURGE == yes ]]; then
  # Kubernetes deletes what belongs to an owner that is gone. Deleting a CRD deletes the owners without asking.
  owned_namespaces=$("${KUBECTL[@]}" get namespaces -o go-template='{{range .items}}{{$n := .metadata.name}}{{range .metadata.ownerReferences}}{{$n}} {{.apiVersion}}{{"\n"}}{{end}}{{end}}' |
    awk '$2 ~ /kubesphere\.io\//{print $1}' | sort -u)
  if [[ -n $owned_namespaces ]]; then
    echo "Refusing to purge: these namespaces belong to a workspace and would be deleted with it:" >&2
    while IFS= read -r name; do echo "  $name" >&2; done <<<"$owned_namespaces"
    echo "Remove their metadata.ownerReferences first." >&2
    exit 1
  fi
fi

first=() last=() shells=()
for file in "${found[@]}"; do
  case $(title "$file") in
  "Namespace kubesphere-node-shells" | "Namespace kubesphere-terminals" | "Namespace kubesphere-kubeconfigs") shells+=("$file") ;;
  "Secret kubesphere-config" | "Namespace "* | "Workspace "* | "WorkspaceTemplate "*) last+=("$file") ;;
  *) first+=("$file") ;;
  esac
done
remove background "${first[@]}"
# Shells and tokens are no data, and what would end them has lost its rights just now. The namespace may be marked as one of the system's.
for file in "${shells[@]}"; do
  "${KUBECTL[@]}" label -f "$file" kubesphere.io/protected-resource- >/dev/null
done
remove background "${shells[@]}"
# What the tokens in users' kubeconfigs may do (kubeconfig.authMode: service-account-token).
"${KUBECTL[@]}" delete clusterrolebindings,clusterroles -l kubeconfig.kapis.dev/user-uid >/dev/null
# Without ks-controller-manager, what asks its webhooks can't be written any more. It has lost its rights just now, so that they stay away.
"${KUBECTL[@]}" delete --ignore-not-found validatingwebhookconfigurations,mutatingwebhookconfigurations ks-controller-manager.kapis.dev >/dev/null
# The same holds for the APIService of the aggregated API, and its rights: one that leads nowhere would keep every namespace from being deleted.
"${KUBECTL[@]}" delete --ignore-not-found -f "$root/config/aggregated/rbac.yaml" -f "$root/config/aggregated/service.yaml" >/dev/null
# And what a cluster of a fleet has beside: the rights of a hub, and those that a member gives it, whose policies would keep what it left.
"${KUBECTL[@]}" delete --ignore-not-found -f "$root/config/fleet/hub/rbac.yaml" -f "$root/config/fleet/member/rbac.yaml" \
  -f "$root/config/fleet/member/policy.yaml" >/dev/null
# And the rights to make gateways of projects, which an overlay may have added. The gateways stay, and serve.
"${KUBECTL[@]}" delete --ignore-not-found -f "$root/config/gateway/templates/rbac.yaml" -f "$root/config/gateway/class/rbac.yaml" >/dev/null
"${KUBECTL[@]}" delete apiservices -l app.kubernetes.io/part-of=ks-apiserver,app.kubernetes.io/managed-by=ks-controller-manager >/dev/null
# Which bindings a member has made once: they go with the roles, and the next installation makes them again.
"${KUBECTL[@]}" -n kubesphere-system delete --ignore-not-found secret ks-controller-manager-defaults >/dev/null

if [[ $PURGE != yes ]]; then
  echo "These stay, since people's data is in them; PURGE=yes takes them away too:"
  for file in "${last[@]}"; do echo "  $(title "$file")"; done
  for file in "${crds[@]}"; do echo "  $(title "$file")"; done
  exit 0
fi

remove orphan "${last[@]}"
remove background "${crds[@]}"
# Their objects wait for finalizers that are the work of ks-controller-manager, which has lost its rights just now. What that would do is done here.
for file in "${crds[@]}"; do release "$(awk '/^  name: /{print $2; exit}' "$file")"; done
# The native roles and bindings that stand for ours belong to objects of kinds that are gone, of whose end the garbage collector does not always hear.
"${KUBECTL[@]}" delete clusterrolebindings,clusterroles --ignore-not-found -l app.kubernetes.io/managed-by=ks-controller-manager >/dev/null
"${KUBECTL[@]}" delete rolebindings,roles --all-namespaces --ignore-not-found -l app.kubernetes.io/managed-by=ks-controller-manager >/dev/null
echo "Purged. Objects with finalizers of others are gone once these, or you, have removed them."
