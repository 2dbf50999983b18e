#!/usr/bin/env bash
# Tries the admission policies of config/install/admission.yaml, and the webhooks of a ks-controller-manager that runs, on the cluster of KUBECONFIG,
# a development one that hack/install.sh was run on: as people who hold the rights that RBAC would let pass. Needs an admin's kubeconfig that
# may impersonate. Everything it makes is named kapis-verify-..., and is deleted at the end.
set -euo pipefail

read -r -a KUBECTL <<<"${KUBECTL:-kubectl}"
p=kapis-verify
failures=0

admin() { "${KUBECTL[@]}" "$@"; }
# Who asks: the user himself by the self-service role, one who manages users, the same with an API key, one who manages users and is one, and
# one who runs a namespace.
self() { admin --as=$p-self --as-group=system:authenticated --as-group=kapis:conditional:$p "$@"; }
manager() { admin --as=$p-manager "$@"; }
keyed() { manager --as-user-extra=authentication.kapis.dev/credential=api-key "$@"; }
chief() { admin --as=$p-chief "$@"; }
project() { admin --as=$p-project -n $p "$@"; }

# allowed|refused NAME COMMAND...
allowed() {
  local out
  if out=$("${@:2}" 2>&1); then echo "ok      $1"; else fail "$1" "refused: $out"; fi
}
refused() {
  local out
  if out=$("${@:2}" 2>&1); then fail "$1" "allowed"; return; fi
  case $out in
  *"is forbidden"* | *"denied the request"*) echo "ok      $1" ;;
  *) fail "$1" "not by a policy: $out" ;;
  esac
}
fail() {
  echo "FAILED  $1: $2"
  failures=$((failures + 1))
}

clean() {
  local kind
  for kind in "ns $p" "users.iam.kubesphere.io $p-self $p-made $p-plain $p-chief" "globalrolebindings.iam.kubesphere.io $p" \
    "clusterroles.rbac.authorization.k8s.io $p-self $p-manager $p-project" \
    "clusterrolebindings.rbac.authorization.k8s.io $p-self $p-manager"; do
    # shellcheck disable=SC2086
    admin delete --ignore-not-found --wait=false $kind >/dev/null || true
  done
}

# user NAME ANNOTATIONS SPEC, role NAME and binding KIND ROLE print objects, as JSON.
user() { echo "{\"apiVersion\":\"iam.kubesphere.io/v1beta1\",\"kind\":\"User\",\"metadata\":{\"name\":\"$1\",\"annotations\":{$2}},\"spec\":{$3}}"; }
role() { echo "{\"apiVersion\":\"iam.kubesphere.io/v1beta1\",\"kind\":\"Role\",\"metadata\":{\"name\":\"$1\"},\"rules\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"verbs\":[\"get\"]}]}"; }
binding() { echo "{\"apiVersion\":\"iam.kubesphere.io/v1beta1\",\"kind\":\"$1Binding\",\"metadata\":{\"name\":\"$p\"},\"subjects\":[{\"kind\":\"User\",\"name\":\"$p-manager\"}],\"roleRef\":{\"apiGroup\":\"iam.kubesphere.io\",\"kind\":\"$1\",\"name\":\"$2\"}}"; }
make_as() { "$1" create -f <(echo "$2"); }
patch_user() { "$1" patch users.iam.kubesphere.io "$2" --type=merge -p "$3"; }
patch_self() { patch_user self $p-self "$1"; }

setup() {
  admin create ns $p
  admin apply --server-side -f - <<YAML
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $p-self}
rules: [{apiGroups: [iam.kubesphere.io], resources: [users], verbs: [get, update, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $p-self}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $p-self}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "kapis:conditional:$p"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $p-manager}
rules:
  - apiGroups: [iam.kubesphere.io]
    resources: [globalrolebindings, globalroles, rolebindings, roles, roletemplates, users]
    verbs: [get, create, update, patch, delete]
  - {apiGroups: [iam.kubesphere.io], resources: [globalroles], resourceNames: [platform-regular], verbs: [bind]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $p-manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $p-manager}
subjects:
  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: $p-manager}
  - {apiGroup: rbac.authorization.k8s.io, kind: User, name: $p-chief}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $p-project}
rules:
  - {apiGroups: [iam.kubesphere.io], resources: [roles], verbs: [create, patch, bind, escalate]}
  - {apiGroups: [iam.kubesphere.io], resources: [rolebindings], verbs: [create, patch]}
  - {apiGroups: [""], resources: [namespaces], verbs: [get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: $p, namespace: $p}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $p-project}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: $p-project}]
YAML
  make_as admin "$(user $p-self '"iam.kubesphere.io/uninitialized":"true","kubesphere.io/creator":"admin"' '"password":"Passw0rd","groups":["dev"]')"
  make_as admin "$(user $p-chief '' '"password":"Passw0rd"')"
  make_as admin "$(user $p-plain '' '"password":"Passw0rd"')"
  # RBAC follows within a moment; a policy that is not there yet would let the first trial through.
  for _ in $(seq 100); do
    if self get users.iam.kubesphere.io $p-self && manager get users.iam.kubesphere.io $p-self && chief get users.iam.kubesphere.io $p-chief && project get ns $p; then return; fi
  done
  return 1
}

admin get --raw=/version >/dev/null # says what is wrong with the cluster, once
clean
trap clean EXIT
setup >/dev/null 2>&1 || { echo "verify-admission: cannot set up; is this a cluster that hack/install.sh was run on?" >&2; exit 1; }

allowed OwnPasswordAtFirstLogin self patch users.iam.kubesphere.io $p-self --type=json \
  -p '[{"op":"remove","path":"/metadata/annotations/iam.kubesphere.io~1uninitialized"},{"op":"replace","path":"/spec/password","value":"Newpassw0rd"}]'
refused OwnPasswordWithoutTheCurrentOne patch_self '{"spec":{"password":"Otherpassw0rd"}}'
refused OwnFirstLoginAgain patch_self '{"metadata":{"annotations":{"iam.kubesphere.io/uninitialized":"true"}}}'
allowed OwnLanguage patch_self '{"spec":{"lang":"zh"}}'
refused OwnGroups patch_self '{"spec":{"groups":["dev","ops"]}}'
refused OwnGroupsLeft patch_self '{"spec":{"groups":null}}'
refused OwnRole patch_self '{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"platform-admin"}}}'
refused OwnClusters patch_self '{"metadata":{"annotations":{"iam.kubesphere.io/granted-clusters":"host"}}}'
refused OwnAnnotationRemoved patch_self '{"metadata":{"annotations":{"kubesphere.io/creator":null}}}'
refused OwnLabels patch_self '{"metadata":{"labels":{"a":"b"}}}'
refused OwnFinalizers patch_self '{"metadata":{"finalizers":["a.b/c"]}}'
refused OwnLabelsInTheOlderVersion self label users.v1alpha2.iam.kubesphere.io $p-self a=b

allowed OwnAnnotationOfAManager patch_user chief $p-chief '{"metadata":{"annotations":{"a":"b"}}}'
refused OwnPasswordOfAManager patch_user chief $p-chief '{"spec":{"password":"Otherpassw0rd"}}'
refused OwnFirstLoginOfAManager patch_user chief $p-chief '{"metadata":{"annotations":{"iam.kubesphere.io/uninitialized":"true"}}}'
refused OwnFirstLoginOfAManagerInTheOlderVersion chief annotate users.v1alpha2.iam.kubesphere.io $p-chief iam.kubesphere.io/uninitialized=true
allowed FirstLoginOfSomebodyElse patch_user chief $p-plain '{"metadata":{"annotations":{"iam.kubesphere.io/uninitialized":"true"}}}'

allowed LanguageWithAnAPIKey patch_user keyed $p-plain '{"spec":{"lang":"zh"}}'
allowed EmailWithoutAnAPIKey patch_user manager $p-plain '{"spec":{"email":"kapis-verify@example.com"}}'
allowed LinkWithoutAnAPIKey patch_user manager $p-plain '{"metadata":{"annotations":{"iam.kubesphere.io/identity-provider.x":"y"},"labels":{"iam.kubesphere.io/origin-uid":"y"}}}'
refused PasswordWithAnAPIKey patch_user keyed $p-plain '{"spec":{"password":"Otherpassw0rd"}}'
refused EmailWithAnAPIKey patch_user keyed $p-plain '{"spec":{"email":"kapis-verify-2@example.com"}}'
refused EmailRemovedWithAnAPIKey patch_user keyed $p-plain '{"spec":{"email":null}}'
refused LinkWithAnAPIKey patch_user keyed $p-plain '{"metadata":{"annotations":{"iam.kubesphere.io/identity-provider.z":"y"}}}'
refused LinkRemovedWithAnAPIKey patch_user keyed $p-plain '{"metadata":{"annotations":{"iam.kubesphere.io/identity-provider.x":null}}}'
refused LinkByALabelWithAnAPIKey patch_user keyed $p-plain '{"metadata":{"labels":{"iam.kubesphere.io/origin-uid":"z"}}}'
refused FirstLoginWithAnAPIKey patch_user keyed $p-plain '{"metadata":{"annotations":{"iam.kubesphere.io/uninitialized":null}}}'

allowed UserWithHarmlessRole make_as manager "$(user $p-made '"iam.kubesphere.io/globalrole":"platform-regular"' '')"
refused UserMadeAdmin patch_user manager $p-made '{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"platform-admin"}}}'
refused UserPutInGroup patch_user manager $p-made '{"spec":{"groups":["admins"]}}'
refused RoleWidened manager patch globalroles.iam.kubesphere.io platform-regular --type=merge -p '{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}'
refused TemplateRelabelled manager label roletemplates.iam.kubesphere.io global-manage-users iam.kubesphere.io/aggregate-to-authenticated=
refused AdminBound make_as manager "$(binding GlobalRole platform-admin)"
allowed RegularBound make_as manager "$(binding GlobalRole platform-regular)"
refused BindingRetargeted manager patch globalrolebindings.iam.kubesphere.io $p --type=merge -p '{"roleRef":{"name":"platform-admin"}}'
refused AdminDeleted manager delete users.iam.kubesphere.io admin --wait=false
refused AdminLeftToTheGarbageCollector patch_user manager admin '{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"00000000-0000-4000-8000-000000000000"}]}}'
refused RoleInForeignNamespace manager -n $p create -f <(role $p-x)

allowed RoleInOwnNamespace project create -f <(role $p)
allowed BindingInOwnNamespace make_as project "$(binding Role $p)"
allowed NamespaceAnnotated project annotate ns $p kubesphere.io/alias-name=x
allowed NamespaceLabelled project label ns $p team=x
refused NamespaceMovedToAnotherWorkspace project label ns $p kubesphere.io/workspace=b
refused PodSecurityLowered project label ns $p pod-security.kubernetes.io/enforce=privileged
allowed NamespaceMovedByAnAdmin admin label ns $p kubesphere.io/workspace=b
refused NamespaceTakenOutOfItsWorkspace project label ns $p kubesphere.io/workspace-
refused NamespaceMadeBySomebodyElse project annotate ns $p kubesphere.io/creator=$p-project
allowed NamespaceProtectedByAnAdmin admin label ns $p kubesphere.io/protected-resource=
refused ProtectedNamespaceDeleted admin delete ns $p --wait=false
refused ProtectionTakenAway project label ns $p kubesphere.io/protected-resource-
allowed ProtectionTakenAwayByAnAdmin admin label ns $p kubesphere.io/protected-resource-
refused LinkByAServiceAccount admin --as=system:serviceaccount:$p:robot patch users.iam.kubesphere.io $p-made --type=merge -p '{"metadata":{"annotations":{"iam.kubesphere.io/identity-provider.x":"y"}}}'

if ((failures > 0)); then
  echo "$failures trials failed" >&2
  exit 1
fi
echo "All policies hold."
