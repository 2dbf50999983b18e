package kubeconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/kubeconfig/account"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// tokenAttempts bounds how often a service account is made that is deleted meanwhile.
	tokenAttempts = 3
	// leastLife is that of a token of kube-apiserver.
	leastLife = 10 * time.Minute
)

// Tokens returns kubeconfigs for kube-apiserver itself, each with a new token of the service account of its user (pkg/kubeconfig/account).
// ks-controller-manager lets that impersonate the user.
type Tokens struct {
	// Server is kube-apiserver's https URL for users, and Authority the PEM certificates of its CAs.
	Server    string
	Authority []byte
	// MaxAge is the life of a token, which is valid for no longer than the login that got it. kube-apiserver may issue shorter ones.
	MaxAge time.Duration
	// AsCaller makes the service account and its tokens, as the caller in the group account.Group.
	AsCaller caller.Client
	Now      func() time.Time
}

// Get returns the kubeconfig of the caller, with a token. Nobody gets one for another user: it would act as that user.
func (t *Tokens) Get(r *http.Request, name string) (any, error) {
	who := request.UserFrom(r.Context())
	login := session.Of(who)
	switch {
	case who == nil || who.GetName() != name:
		return nil, status.Forbiddenf("a kubeconfig of %.200q has a token that acts as that user: users get their own", name)
	case login == nil || login.Registration != nil || login.User != name || login.UserUID != who.GetUID() || !account.IsUID(login.UserUID):
		return nil, status.Forbiddenf("a token in a kubeconfig would outlive the credential of %.200q: log in to get it", name)
	case web.IsHead(r):
		return nil, status.BadRequestf("a token is issued for a GET")
	}
	life := min(t.MaxAge, login.Expires.Sub(t.Now()))
	if life < leastLife {
		return nil, status.Forbiddenf("a token is valid for no longer than the login that gets it, and this login of %.200q ends too soon:"+
			" log in again", name)
	}
	decision := authz.DecisionFrom(r.Context())
	decision.Group = account.Group
	issued, err := t.issue(authz.WithDecision(r.Context(), decision), r, name, login.UserUID, life)
	if err != nil {
		return nil, err
	}
	text, err := clientcmd.Write(t.config(name, issued.Token))
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig of user %q: %w", name, err)
	}
	head := fmt.Sprintf("# The token in this file is a credential of yours until %s. Get the file again after that.\n",
		issued.ExpirationTimestamp.UTC().Format(time.RFC3339))
	return credentialText(append([]byte(head), text...)), nil
}

// issue makes the service account, or says that it is used for longer, and returns a token of it.
func (t *Tokens) issue(ctx context.Context, r *http.Request, user, uid string, life time.Duration) (
	*authenticationv1.TokenRequestStatus, error) {
	const accounts = "/api/v1/namespaces/" + account.Namespace + "/serviceaccounts"
	one := accounts + "/" + account.Name(uid)
	for attempt := 1; ; attempt++ {
		its := account.New(user, uid, t.Now().Add(t.MaxAge))
		_, err := t.send(ctx, r, http.MethodPost, accounts, "", its)
		if apierrors.IsAlreadyExists(err) {
			longer := map[string]any{"metadata": map[string]any{"annotations": map[string]string{
				account.AnnotationExpires: its.Annotations[account.AnnotationExpires]}}}
			_, err = t.send(ctx, r, http.MethodPatch, one, "application/merge-patch+json", longer)
		}
		var answer []byte
		if err == nil {
			answer, err = t.send(ctx, r, http.MethodPost, one+"/token", "", &authenticationv1.TokenRequest{
				Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(life / time.Second))}})
		}
		if apierrors.IsNotFound(err) && attempt < tokenAttempts { // deleted just now, since the last of its tokens had expired
			continue
		}
		if err != nil {
			return nil, err
		}
		var made authenticationv1.TokenRequest
		if json.Unmarshal(answer, &made) != nil || made.Status.Token == "" {
			return nil, errors.New("kube-apiserver's answer to a TokenRequest is no token")
		}
		return &made.Status, nil
	}
}

func (t *Tokens) send(ctx context.Context, r *http.Request, method, path, mediaType string, object any) ([]byte, error) {
	o := caller.Order{Method: method, Path: path, Type: mediaType, For: r, Implied: true}
	var err error
	if o.Body, err = json.Marshal(object); err != nil {
		return nil, fmt.Errorf("encode what a token needs: %w", err)
	}
	answer, err := t.AsCaller.Do(ctx, o)
	return []byte(answer.Unredacted()), err
}

func (t *Tokens) config(user, token string) clientcmdapi.Config {
	const cluster = "kubernetes"
	c := clientcmdapi.NewConfig()
	c.Clusters[cluster] = &clientcmdapi.Cluster{Server: t.Server, CertificateAuthorityData: t.Authority}
	c.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token, Impersonate: user}
	c.CurrentContext = user + "@" + cluster
	c.Contexts[c.CurrentContext] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	return *c
}
