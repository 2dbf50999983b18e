package inflight

import (
	"strconv"
	"strings"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// kubernetesServiceAccounts begins the user names of Kubernetes' service accounts, which nobody else has.
const kubernetesServiceAccounts = "system:serviceaccount:"

// OwnerOf returns the owner that a user's work counts for. The service accounts of a namespace are one owner: whoever may create one there
// can create any number.
func OwnerOf(username string) string {
	if prefix, namespace, ok := serviceAccount(username); ok {
		return prefix + namespace
	}
	return username
}

// IsServiceAccount reports whether a user is a service account, of Kubernetes or of KubeSphere.
func IsServiceAccount(username string) bool {
	_, _, ok := serviceAccount(username)
	return ok
}

// Has begins a message about what the owner of a user's work has: `user "ann" has`, or `the service accounts of namespace "shop" have`.
func Has(username string) string {
	if _, namespace, ok := serviceAccount(username); ok {
		return "the service accounts of namespace " + strconv.Quote(namespace) + " have"
	}
	return "user " + strconv.Quote(username) + " has"
}

// serviceAccount returns what the user name of a service account begins with, and its namespace.
func serviceAccount(username string) (prefix, namespace string, ok bool) {
	for _, prefix := range [...]string{kubernetesServiceAccounts, iamv1beta1.ServiceAccountUserPrefix} {
		if rest, ok := strings.CutPrefix(username, prefix); ok {
			namespace, _, _ := strings.Cut(rest, ":")
			return prefix, namespace, true
		}
	}
	return "", "", false
}
