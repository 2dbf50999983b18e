package inflight

import (
	"strings"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// kubernetesServiceAccounts begins the user names of Kubernetes' service accounts, which nobody else has.
const kubernetesServiceAccounts = "system:serviceaccount:"

// OwnerOf returns the owner that a user's work counts for. The service accounts of a namespace are one owner: whoever may create one there
// can create any number.
func OwnerOf(username string) string {
	for _, prefix := range [...]string{kubernetesServiceAccounts, iamv1beta1.ServiceAccountUserPrefix} {
		if rest, ok := strings.CutPrefix(username, prefix); ok {
			namespace, _, _ := strings.Cut(rest, ":")
			return prefix + namespace
		}
	}
	return username
}
