# What install.sh and uninstall.sh share. Sourced, with $root set to the repository.
# KUBECTL may name the program with its first arguments; KUBECONFIG is read by kubectl itself.
# shellcheck shell=bash

read -r -a KUBECTL <<<"${KUBECTL:-kubectl}"

# render DIR OUT writes the objects of the kustomization DIR to the folder OUT, one file each.
render() {
  mkdir -p "$2"
  "${KUBECTL[@]}" kustomize "$root/$1" -o "$2"
}

# quietly ARGS... runs kubectl with ARGS and shows what it says of errors, and what to do where these are of webhooks that nobody answers.
quietly() {
  local said failed=0
  said=$("${KUBECTL[@]}" "$@" 2>&1 >/dev/null) || failed=1
  [[ -z $said ]] || printf '%s\n' "$said" >&2
  if ((failed)) && grep -q 'failed calling webhook "[a-z.-]*\.kapis\.dev"' <<<"$said"; then
    cat >&2 <<'EOF'

ks-controller-manager does not answer, and kube-apiserver lets nobody but system:masters write what its webhooks check. If it runs,
wait until it is ready; if it can't run, or needs an installation to run again, switch its webhooks off, and run this once more:
  kubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations ks-controller-manager.kapis.dev
Its leader makes them again. Until then nobody checks that people give no more rights than they hold, and passwords that are
written are stored as they are (docs/operations.md).
EOF
  fi
  return "$failed"
}

# apply ARGS... applies on the server's side, so that big objects fit and the fields of others stay. Quiet but for errors.
apply() { quietly apply --server-side --force-conflicts --field-manager=ks-apiserver-install "$@"; }

# any DIR tells whether files are left in DIR.
any() { compgen -G "$1/*" >/dev/null; }

# show DIR TEMPLATE prints the go-template of each object in the cluster that is in the files of DIR. One call for a folder: they are some 150.
show() {
  # A single object does not come as a list.
  "${KUBECTL[@]}" get --ignore-not-found -f "$1" -o go-template="{{define \"object\"}}$2{{\"\\n\"}}{{end}}"'{{if .items}}{{range .items}}{{template "object" .}}{{end}}{{else}}{{template "object" .}}{{end}}'
}

# owned DIR prints "yes FILE" or "no FILE" for every file in DIR whose object is in the cluster. It is ours if it has
# the label that every object of config/crd and config/install carries.
owned() {
  local file key ours template
  declare -A files=()
  for file in "$1"/*; do
    key=$(awk '/^[^ ]/{m=0} /^apiVersion: /{v=$2} /^kind: /{k=$2} /^metadata:/{m=1} m&&/^  name: /{n=$2} m&&/^  namespace: /{s=$2} END{print v "/" k "/" s "/" n}' "$file")
    files[$key]=$file
  done
  template='{{$ours := "no"}}{{with .metadata.labels}}{{with index . "app.kubernetes.io/part-of"}}'
  template+='{{if eq . "ks-apiserver"}}{{$ours = "yes"}}{{end}}{{end}}{{end}}{{$ours}} {{.apiVersion}}/{{.kind}}/{{with .metadata.namespace}}{{.}}{{end}}/{{.metadata.name}}'
  show "$1" "$template" |
    while read -r ours key; do
      printf '%s %s\n' "$ours" "${files[$key]}"
    done
}

# foreign DIR prints the files in DIR whose object is in the cluster and not ours; mine DIR those whose object is ours.
foreign() { owned "$1" | sed -n 's/^no //p'; }
mine() { owned "$1" | sed -n 's/^yes //p'; }

# title FILE is "Kind name" of the object in FILE.
title() { awk '/^kind: /{k=$2} /^metadata:/{m=1} m&&/^  name: /{print k " " $2; exit}' "$1"; }
