package kubeconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// The Secrets in which ks-controller-manager stores kubeconfigs.
const (
	kubeconfigPrefix = "kubeconfig-"
	kubeconfigKey    = "config"
)

// Certificates returns the kubeconfigs with client certificates. One is a credential that acts as its user: users get their own by a
// login, and other callers only if they may read the Secret.
type Certificates struct {
	// Namespace is where the Secrets are.
	Namespace string
	// Own reads a Secret with this server's rights, nil for none.
	Own func(ctx context.Context, name string) (*corev1.Secret, error)
	// AsCaller reads as the caller.
	AsCaller caller.Client
}

// credentialText is YAML that no cache may store.
type credentialText []byte

// Respond implements web.Responder.
func (c credentialText) Respond(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	yamlText(c).Respond(w, r)
}

// Get returns the kubeconfig of a user, with the certificate: to the user, and to callers who may read its Secret.
func (c *Certificates) Get(ctx context.Context, name string) (any, error) {
	s, err := c.secret(ctx, request.UserFrom(ctx), name)
	if err != nil {
		return nil, err
	}
	if s == nil || len(s.Data[kubeconfigKey]) == 0 {
		return nil, status.Errorf(http.StatusNotFound,
			"there is no certificate for user %q: it is issued a moment after a user becomes active", name)
	}
	return credentialText(s.Data[kubeconfigKey]), nil
}

func (c *Certificates) secret(ctx context.Context, who user.Info, name string) (*corev1.Secret, error) {
	secret := kubeconfigPrefix + name
	if who == nil || who.GetName() != name {
		raw, err := c.AsCaller.Get(ctx, "/api/v1/namespaces/"+c.Namespace+"/secrets/"+secret)
		if err != nil {
			return nil, err
		}
		s := &corev1.Secret{}
		if err := json.Unmarshal([]byte(raw.Unredacted()), s); err != nil {
			return nil, fmt.Errorf("read the kubeconfig of user %q: %w", name, err)
		}
		return s, nil
	}
	if session.Of(who) == nil { // an API key, a token of a provider, an older certificate: each is checked, or ends, sooner
		return nil, apierrors.NewForbidden(schema.GroupResource{Group: "iam.kubesphere.io", Resource: "users"}, name,
			errors.New("a certificate would outlive the credential of this request; log in to get it"))
	}
	return c.Own(ctx, secret)
}
