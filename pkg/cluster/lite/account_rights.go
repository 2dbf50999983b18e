package lite

import (
	"context"
	"errors"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

// tooMuch are rights that no hub takes: it acts in the names of users, within what an administrator has listed.
var tooMuch = []authorizationv1.ResourceAttributes{
	{Verb: "*", Group: "*", Resource: "*"},
	{Verb: "impersonate", Resource: "groups", Name: "system:masters"},
	{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "cluster-admin"},
}

// CheckAccount returns an error unless a client has the credential of the account, and the account has none of the rights that no hub
// takes. kube-apiserver says both: what a token says of itself proves nothing.
func CheckAccount(ctx context.Context, client kubernetes.Interface) error {
	who, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return errors.New("the cluster's kube-apiserver does not say whose the credential is")
	}
	if who.Status.UserInfo.Username != username {
		return refused("the credential is not one of the account %s in %s, which its administrator makes for that", join.LiteAccount, namespace)
	}
	for i := range tooMuch {
		a := tooMuch[i]
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}
		got, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return errors.New("the cluster's kube-apiserver does not say what the account may do")
		}
		if got.Status.Allowed {
			return refused("the account %s may %s %s: it gets the rights that are listed for it, and no more", join.LiteAccount, a.Verb,
				strings.TrimSpace(a.Resource+" "+a.Name))
		}
	}
	return nil
}
