#!/usr/bin/env bash
# Applies the CRDs, default roles, admission policies, service accounts and OAuth clients to the cluster of
# KUBECONFIG. Running it again brings the same objects up to date.
#
# Objects that were there before, as in an installation of KubeSphere, are left as they are and listed: this program
# serves them so. ADOPT=yes takes them over (server-side apply: fields that we do not set stay, but a list of rules is
# one field); from then on they count as ours, for hack/uninstall.sh too. A CRD is never taken over where that would
# drop a version that it serves or has stored.
#
# The console's OAuth client gets a random secret, once: a client that is there keeps its own, with ADOPT=yes too. `make run` gives that of its own control
# plane, which listens on loopback only, the one that everybody knows (CONSOLE_CLIENT_SECRET_FOR_LOOPBACK); for any other server this is an error.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/hack/lib.sh"

ADOPT=${ADOPT:-no}
umask 077
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# leave FILE REASON takes FILE out of what is applied.
leave() {
  printf '  left as it is: %s%s\n' "$(title "$1")" "$2"
  rm -f "$1"
}

# leave_foreign DIR leaves the objects that were there before, unless they are to be adopted.
leave_foreign() {
  local file list
  [[ $ADOPT != yes ]] || return 0
  list=$(foreign "$1")
  [[ -n $list ]] || return 0
  while IFS= read -r file; do leave "$file" ""; done <<<"$list"
  echo "  These were there before. ADOPT=yes takes them over."
}

# leave_newer DIR leaves the CRDs that have a version in the cluster which ours lacks.
leave_newer() {
  local file list name version versions
  list=$(show "$1" '{{.metadata.name}}{{range .spec.versions}} {{.name}}{{end}}{{with .status}}{{range .storedVersions}} {{.}}{{end}}{{end}}')
  while read -r name versions; do
    [[ -n $name ]] || continue # there is none
    file=$(grep -lx "  name: $name" "$1"/*)
    for version in $versions; do
      if ! grep -qx "    name: $version" "$file"; then
        leave "$file" " (it has $version, which ours has not)"
        break
      fi
    done
  done <<<"$list"
}

# console_client makes the OAuth client of the console, unless there is one. The secret is in files of this user, and in no argument or output.
console_client() {
  local secret server text file known
  render config/console "$work/console"
  file=$(echo "$work"/console/*)
  known=$("${KUBECTL[@]}" -n kubesphere-system get secret oauthclient-kubesphere --ignore-not-found -o jsonpath='{.data.configuration\.yaml}' | base64 -d)
  if [[ -n $known ]]; then
    echo "  kept: the console's OAuth client, Secret oauthclient-kubesphere, with its secret."
    if grep -qE "^ *secret: *[\"']?kubesphere[\"']?[[:space:]]*$" <<<"$known"; then
      echo "  WARNING: that secret is the one that everybody knows. docs/login.md#the-consoles-secret says how to change it."
    fi
    if [[ $ADOPT == yes ]]; then
      "${KUBECTL[@]}" -n kubesphere-system label --overwrite secret oauthclient-kubesphere app.kubernetes.io/part-of=ks-apiserver >/dev/null
    fi
    return
  fi
  secret=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n')
  if [[ -n ${CONSOLE_CLIENT_SECRET_FOR_LOOPBACK:-} ]]; then
    server=$("${KUBECTL[@]}" config view --minify -o 'jsonpath={.clusters[0].cluster.server}')
    if [[ ! $server =~ ^https://(127\.0\.0\.1|localhost|\[::1\]):[0-9]+$ ]]; then
      echo "CONSOLE_CLIENT_SECRET_FOR_LOOPBACK is for a control plane on loopback, and not for $server." >&2
      exit 1
    fi
    secret=$CONSOLE_CLIENT_SECRET_FOR_LOOPBACK
  fi
  text=$(<"$file")
  printf '%s\n' "${text//FILLED-IN-BY-INSTALL/$secret}" >"$file"
  apply -f "$file"
  echo "  made: the console's OAuth client, Secret oauthclient-kubesphere, with a secret of its own. docs/login.md#the-consoles-secret says how the console gets it."
}

# retire DIR KIND deletes our objects of KIND that are not in the files in DIR: a policy that an earlier version had would go on to deny.
retire() {
  local object
  "${KUBECTL[@]}" get "$2" -l app.kubernetes.io/part-of=ks-apiserver -o name | while IFS= read -r object; do
    grep -qx "  name: ${object#*/}" "$1"/* || "${KUBECTL[@]}" delete "$object"
  done
}

echo "Applying CRDs"
render config/crd "$work/all"
cp -r "$work/all" "$work/crd"
"${KUBECTL[@]}" get --raw=/version >/dev/null # says what is wrong with the cluster, once
leave_foreign "$work/crd"
if any "$work/crd"; then leave_newer "$work/crd"; fi
if any "$work/crd"; then apply -f "$work/crd"; fi
# Those that were left are needed as well.
"${KUBECTL[@]}" wait --for=condition=Established --timeout=60s -f "$work/all" >/dev/null
if ! "${KUBECTL[@]}" get --raw='/apis/iam.kubesphere.io/v1beta1/users?limit=1' >/dev/null; then
  echo "The CRD users.iam.kubesphere.io that was there before has no version v1beta1; ADOPT=yes adds it." >&2
  exit 1
fi

echo "Applying roles, admission policies, service accounts and the console's OAuth client"
render config/install "$work/policies"
cp -r "$work/policies" "$work/install"
# An overlay or a hub may have applied the policies of optional components. They are not applied here, and not retired.
cp "$root/config/fleet/member/policy.yaml" "$work/policies/fleet-member.yaml"
cp "$root/config/gateway/templates/rbac.yaml" "$work/policies/gateway-templates.yaml"
# Until the installation had it, ks-apiserver made it: it is nobody else's.
if [[ -n $("${KUBECTL[@]}" -n kubesphere-system get configmap extension-apiserver-authentication --ignore-not-found -o name) ]]; then
  "${KUBECTL[@]}" -n kubesphere-system label --overwrite configmap extension-apiserver-authentication app.kubernetes.io/part-of=ks-apiserver >/dev/null
fi
leave_foreign "$work/install"
# The configuration is made once; from then on it is its owner's to edit. None is made in addition to the ConfigMap of an older installation, since the Secret
# would count in its place.
there=$("${KUBECTL[@]}" -n kubesphere-system get secret/kubesphere-config configmap/kubesphere-config --ignore-not-found -o name)
if config=$(grep -lx '  name: kubesphere-config' "$work"/install/*) && [[ -n $there ]]; then rm "$config"; fi
if [[ $there == *configmap/* ]]; then
  echo "  left as it is: ConfigMap kubesphere-config. Whoever may read ConfigMaps reads the secrets in it: docs/existing.md moves it into a Secret."
fi
mapfile -t namespaces < <(grep -lx 'kind: Namespace' "$work"/install/* || true)
for namespace in "${namespaces[@]}"; do
  apply -f "$namespace" # first: the others are applied in the order of their files' names
  rm "$namespace"
done
# One of those that webhooks are asked about first: where these do not answer, each of some ninety would wait until it is given up.
asked=$(grep -lx 'kind: GlobalRole' "$work"/install/* | head -n 1 || true)
if [[ -n $asked ]]; then apply --dry-run=server -f "$asked"; fi
if any "$work/install"; then apply -f "$work/install"; fi
console_client
retire "$work/policies" validatingadmissionpolicybindings
retire "$work/policies" validatingadmissionpolicies
echo "Installed. ks-controller-manager makes the user admin at its first start."
