// Package account has the service accounts whose tokens are in users' kubeconfigs (kubeconfig.authMode: service-account-token). One has no
// right but to impersonate its user at kube-apiserver, without groups: so the holder of its token is the user there, has the user's own
// rights and is recorded as the user. A service account is there as long as a token of it is valid.
package account

import (
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Namespace has the service accounts, and nothing else: admission policies (config/rbac/kubeconfig-tokens.yaml) take care of that.
	Namespace = "kubesphere-kubeconfigs"
	// Group is the synthetic group that may make the service account of the user who is in it, and get its tokens.
	Group = "kapis:platform:kubeconfig"
	// LabelUser has the UID of the user, on the service account, and on the ClusterRole and the ClusterRoleBinding for it.
	LabelUser = "kubeconfig.kapis.dev/user-uid"
	// AnnotationUser has the user's name, which is not always fit to be a label.
	AnnotationUser = "kubeconfig.kapis.dev/user"
	// AnnotationExpires has the time at which the last of the tokens has expired, as in RFC 3339.
	AnnotationExpires = "kubeconfig.kapis.dev/expires"

	namePrefix = "user-"
	rolePrefix = "kubesphere:kubeconfig:"
)

var uid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// IsUID reports whether a UID is one of Kubernetes' (RFC 9562, section 4).
func IsUID(s string) bool { return uid.MatchString(s) }

// Name returns the name of a user's service account. It has the UID: a user who is made again under the same name gets another one.
func Name(uid string) string { return namePrefix + uid }

// UID returns the UID of the user whose service account has that name; "" for none.
func UID(name string) string {
	if s, ok := strings.CutPrefix(name, namePrefix); ok && IsUID(s) {
		return s
	}
	return ""
}

// RoleName returns the name of the ClusterRole, and of the ClusterRoleBinding, of a service account.
func RoleName(account string) string { return rolePrefix + account }

// OfRole returns the name of the service account whose ClusterRole has that name; "" for none.
func OfRole(role string) string {
	if s, ok := strings.CutPrefix(role, rolePrefix); ok && UID(s) != "" {
		return s
	}
	return ""
}

// Expires returns a time as AnnotationExpires has it.
func Expires(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// New returns the service account of a user, whose tokens expire at that time at the latest.
func New(user, uid string, expires time.Time) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name(uid), Labels: map[string]string{LabelUser: uid},
			Annotations: map[string]string{AnnotationUser: user, AnnotationExpires: Expires(expires)}},
		AutomountServiceAccountToken: new(bool),
	}
}

// Grant returns the role and the binding that let a service account impersonate its user, and no other user or group.
func Grant(user, uid string) (*rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding) {
	meta := metav1.ObjectMeta{Name: RoleName(Name(uid)), Labels: map[string]string{LabelUser: uid}}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{user}, Verbs: []string{"impersonate"},
	}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: *meta.DeepCopy(),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: Name(uid)}}}
	return role, binding
}
