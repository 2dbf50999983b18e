package direct

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

const (
	// account is the ServiceAccount of this hub in a member that it dials, and roleName the name of its roles and bindings.
	account, roleName = "ks-fleet-hub", "kubesphere:ks-fleet-hub"
	// tokenLife is how long a token is asked for; a cluster may give less. It is renewed when half of that is over.
	tokenLife = 30 * 24 * time.Hour
	// service is what is dialled through kube-apiserver: the Service and its port.
	service = "ks-apiserver:80"
	// servicePath is where kube-apiserver passes on to it.
	servicePath = "/api/v1/namespaces/" + namespace + "/services/" + service + "/proxy"
)

// everywhere and inNamespace are what the hub needs in a member that it dials, and no more: none reads a Secret.
var (
	everywhere = []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"namespaces"},
			ResourceNames: []string{metav1.NamespaceSystem, namespace}},
	}
	inNamespace = []rbacv1.PolicyRule{
		{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
		{Verbs: []string{"get", "update"}, APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{join.Invitation}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"services/proxy"}, ResourceNames: []string{service}},
		{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{account}},
	}
)

// Expires returns when the credential in a kubeconfig ends: its certificate, or its token where that says so; zero where it does not end,
// or is not known to.
func Expires(kubeconfig []byte) time.Time {
	c, err := Parse(kubeconfig, func(*rest.Config) {})
	if err != nil {
		return time.Time{}
	}
	if block, _ := pem.Decode(c.CertData); block != nil {
		if leaf, err := x509.ParseCertificate(block.Bytes); err == nil {
			return leaf.NotAfter
		}
	}
	return claimsOf(c.BearerToken).expires()
}

// claims are what a token says. It is not verified: only its owner's kube-apiserver can.
type claims struct {
	Subject string `json:"sub"`
	Issued  int64  `json:"iat"`
	Ends    int64  `json:"exp"`
}

func claimsOf(token string) (c claims) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(raw, &c) != nil {
		return claims{}
	}
	return c
}

func (c claims) expires() time.Time {
	if c.Ends <= 0 {
		return time.Time{}
	}
	return time.Unix(c.Ends, 0)
}

// isOf reports whether the token is one of an account there, and isFresh whether half of its life is left.
func (c claims) isOf(account string) bool {
	return c.Subject == "system:serviceaccount:"+namespace+":"+account && c.Ends > c.Issued
}

func (c claims) isFresh(now time.Time) bool {
	return now.Before(time.Unix(c.Issued+(c.Ends-c.Issued)/2, 0))
}

// clientOf returns a client by a kubeconfig. Its error quotes nothing of that.
func clientOf(c *rest.Config) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, errors.New("the authority, the certificate or the key in the kubeconfig can't be read")
	}
	return client, nil
}

// Exchange returns a kubeconfig with a credential of listed rights for the cluster of a kubeconfig, which it makes there by the credential
// in that; nil where that is such a one already, with half of its life left. What it returns has been tried.
func Exchange(ctx context.Context, kubeconfig []byte, transport func(*rest.Config), now time.Time) ([]byte, error) {
	c, err := Parse(kubeconfig, transport)
	if err != nil {
		return nil, err
	}
	has := claimsOf(c.BearerToken)
	if has.isOf(account) && has.isFresh(now) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client, err := clientOf(c)
	if err != nil {
		return nil, err
	}
	if !has.isOf(account) {
		if err := grant(ctx, client); err != nil {
			return nil, explain("make an account of listed rights for this hub in the cluster", err)
		}
	}
	next, err := tokenOf(ctx, client, account, kubeconfig)
	if err != nil {
		return nil, err
	}
	return next, try(ctx, next, transport)
}

// ExchangeFor is Exchange for an account that the cluster's administrator has made, with the rights that they gave it.
func ExchangeFor(ctx context.Context, kubeconfig []byte, account string, transport func(*rest.Config), now time.Time) ([]byte, error) {
	c, err := Parse(kubeconfig, transport)
	if err != nil {
		return nil, err
	}
	if has := claimsOf(c.BearerToken); has.isOf(account) && has.isFresh(now) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client, err := clientOf(c)
	if err != nil {
		return nil, err
	}
	return tokenOf(ctx, client, account, kubeconfig)
}

// tokenOf returns a kubeconfig for the same server with a new token of an account.
func tokenOf(ctx context.Context, client kubernetes.Interface, account string, kubeconfig []byte) ([]byte, error) {
	life := int64(tokenLife / time.Second)
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}, metav1.CreateOptions{})
	if err != nil {
		return nil, explain("make a token of the account "+account+" in the cluster", err)
	}
	return withToken(kubeconfig, account, token.Status.Token)
}

// grant makes the account with its rights.
func grant(ctx context.Context, client kubernetes.Interface) error {
	cluster, here := metav1.ObjectMeta{Name: roleName}, metav1.ObjectMeta{Name: account, Namespace: namespace}
	of := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}}
	rbac, o := client.RbacV1(), metav1.CreateOptions{}
	_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: here}, o)
	for _, add := range []func() error{
		func() error {
			r := &rbacv1.ClusterRole{ObjectMeta: cluster, Rules: everywhere}
			_, err := rbac.ClusterRoles().Create(ctx, r, o)
			if apierrors.IsAlreadyExists(err) { // it may be of an older release
				_, err = rbac.ClusterRoles().Update(ctx, r, metav1.UpdateOptions{})
			}
			return err
		},
		func() error {
			r := &rbacv1.Role{ObjectMeta: here, Rules: inNamespace}
			_, err := rbac.Roles(namespace).Create(ctx, r, o)
			if apierrors.IsAlreadyExists(err) {
				_, err = rbac.Roles(namespace).Update(ctx, r, metav1.UpdateOptions{})
			}
			return err
		},
		func() error {
			_, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: cluster, Subjects: of,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roleName}}, o)
			return err
		},
		func() error {
			_, err := rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: here, Subjects: of,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account}}, o)
			return err
		},
	} {
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		err = add()
	}
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// withToken returns a kubeconfig for the same server with another credential: a token, and nothing else of the user that it had.
func withToken(kubeconfig []byte, account, token string) ([]byte, error) {
	all, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.New("the kubeconfig can't be read: it is no YAML of a Config")
	}
	old := all.Contexts[all.CurrentContext]
	server := *all.Clusters[old.Cluster]
	next := clientcmdapi.NewConfig()
	next.Clusters[old.Cluster] = &server
	next.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token}
	next.Contexts[account] = &clientcmdapi.Context{Cluster: old.Cluster, AuthInfo: account}
	next.CurrentContext = account
	out, err := clientcmd.Write(*next)
	if err != nil {
		return nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	return out, nil
}

// try returns why a kubeconfig does not do what the hub needs, or nil.
func try(ctx context.Context, kubeconfig []byte, transport func(*rest.Config)) error {
	c, err := Parse(kubeconfig, transport)
	if err != nil {
		return err
	}
	client, err := clientOf(c)
	if err != nil {
		return err
	}
	if findings := rights(ctx, client, false); len(findings) > 0 {
		return errors.New("the new credential does not do: " + Summary(findings))
	}
	return nil
}
