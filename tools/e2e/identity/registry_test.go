package identity

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/tools/pace"
)

// client is an OAuth client, as it stands in its Secret.
type client struct {
	ID                string   `json:"name"`
	Secret            string   `json:"secret,omitempty"`
	Trusted           bool     `json:"trusted,omitempty"`
	GrantMethod       string   `json:"grantMethod,omitempty"`
	ScopeRestrictions []string `json:"scopeRestrictions,omitempty"`
	RedirectURIs      []string `json:"redirectURIs,omitempty"`
	LogoutURIs        []string `json:"postLogoutRedirectURIs,omitempty"`
	MaxAge            int64    `json:"accessTokenMaxAgeSeconds,omitempty"`
	Inactivity        int64    `json:"accessTokenInactivityTimeoutSeconds,omitempty"`
}

// The clients that tests share. None of them is changed, and none has too many wrong secrets tried on it.
var (
	// console is the platform's own, which is installed with it.
	console = client{ID: "kubesphere", Secret: "kubesphere"}
	// harbor and portal have a secret.
	harbor = client{ID: "harbor", Secret: "a-long-secret-of-harbor-0123456789", RedirectURIs: []string{"https://harbor.example/cb"},
		LogoutURIs: []string{"https://harbor.example/bye", "https://harbor.example/bye?a=b"}}
	portal = client{ID: "portal", Secret: "a-long-secret-of-portal-0123456789",
		RedirectURIs: []string{"https://portal.example/cb", "https://portal.example/cb?a=b%20c&d"}, LogoutURIs: []string{"https://portal.example/bye"}}
	// desk is an application on people's machines: it has none, and people are not asked.
	desk = client{ID: "desk", GrantMethod: "auto", RedirectURIs: []string{"http://127.0.0.1/cb", "com.example.desk:/cb"}}
	// asking is one that people are asked about, and refused one that is given nothing.
	asking  = client{ID: "asking", Secret: "a-long-secret-of-asking-0123456789", GrantMethod: "prompt", RedirectURIs: []string{"https://asking.example/cb"}}
	refused = client{ID: "refused", Secret: "a-long-secret-of-refused-012345678", GrantMethod: "deny", RedirectURIs: []string{"https://refused.example/cb"}}
)

const namespace = "kubesphere-system"

// register makes the client known, and returns once the product knows it.
func (c client) register(ctx context.Context) error {
	if err := c.write(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return pace.Until(ctx, patience, func(ctx context.Context) error { return c.known(ctx, issuer) })
}

func (c client) write(ctx context.Context) error {
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{Type: "config.kubesphere.io/oauthclient", StringData: map[string]string{"configuration.yaml": string(text)}}
	secret.Name, secret.Labels = c.secretName(), map[string]string{"config.kubesphere.io/type": "oauthclient"}
	_, err = kube.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = kube.CoreV1().Secrets(namespace).Update(ctx, secret, metav1.UpdateOptions{})
	}
	return err
}

// known tells whether a server knows the client, as it is: one that it does is told what is wrong with the request, or that nothing is given
// to it (grantMethod: deny), and one that it does not that it is not known.
func (c client) known(ctx context.Context, base string) error {
	a, err := try(ctx, http.MethodPost, base+"/oauth/token", c.form("grant_type", "none"))
	if err == nil && a.field("error") != "unsupported_grant_type" && a.field("error") != "unauthorized_client" {
		err = fmt.Errorf("client %s is not known: %d %s", c.ID, a.status, clip(a.body))
	}
	return err
}

// newClient makes a client for one test, with a secret unless c says that it is public: its ID is made up, and its redirect URI
// where c has none.
func newClient(t *testing.T, c client, bases ...string) client {
	t.Helper()
	c.ID = unique(c.ID)
	if c.RedirectURIs == nil {
		c.RedirectURIs = []string{"https://" + c.ID + ".example/cb"}
	}
	if err := c.register(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, base := range bases {
		eventually(t, base+" knows "+c.ID, func(ctx context.Context) error { return c.known(ctx, base) })
	}
	t.Cleanup(c.forget)
	return c
}

// forget takes the client's Secret away.
func (c client) forget() {
	_ = kube.CoreV1().Secrets(namespace).Delete(context.Background(), c.secretName(), metav1.DeleteOptions{}) // it may be gone
}

// form has the client's credentials, and pairs of names and values.
func (c client) form(pairs ...string) url.Values {
	v := values(pairs...)
	v.Set("client_id", c.ID)
	if c.Secret != "" {
		v.Set("client_secret", c.Secret)
	}
	return v
}

// secretName is that of the client's Secret, whatever the client is called.
func (c client) secretName() string {
	return "oauthclient-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(c.ID))
}
