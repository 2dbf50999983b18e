package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// upstream is an OpenID provider that people of the product log in at, and its configuration in the product.
type upstream struct {
	*idptest.OP
	name string

	mu     sync.Mutex
	codes  map[string]bool // that its token endpoint was shown
	change func(claims map[string]any)
}

// forge changes the claims of ID tokens from now on, before they are signed; nil for no change.
func (u *upstream) forge(change func(claims map[string]any)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.change = change
}

func (u *upstream) note(code string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.codes[code] = true
}

// shown tells whether the code of an answer was redeemed, or tried.
func (u *upstream) shown(back *url.URL) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.codes[back.Query().Get("code")]
}

// newUpstream starts a provider and configures it; more are further keys of its section provider, "key: value". Its person has an account
// that is made when he comes.
func newUpstream(t *testing.T, prefix string, more ...string) *upstream {
	t.Helper()
	u := &upstream{name: unique(prefix), codes: map[string]bool{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			u.note(r.PostFormValue("code"))
		}
		u.Mux.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	u.OP = idptest.NewOP(srv.URL)
	u.Forge = func(claims map[string]any) {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.change != nil {
			u.change(claims)
		}
	}
	u.Set("sub", u.name+"-sub")
	u.Set("preferred_username", u.name+"-jane")
	u.Set("email", u.name+"@example.com")
	text := fmt.Sprintf("name: %s\ntype: OIDCIdentityProvider\nmappingMethod: auto\nprovider:\n  issuer: %s\n  clientID: %s\n  clientSecret: %q\n",
		u.name, srv.URL, idptest.ClientID, idptest.ClientSecret)
	for _, line := range more {
		text += "  " + line + "\n"
	}
	secret := &corev1.Secret{Type: "config.kubesphere.io/identityprovider", StringData: map[string]string{"configuration.yaml": text}}
	secret.Name, secret.Labels = "idp-"+u.name, map[string]string{"config.kubesphere.io/type": "identityprovider"}
	if _, err := kube.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = kube.CoreV1().Secrets(namespace).Delete(context.Background(), secret.Name, metav1.DeleteOptions{})
		_, _ = try(context.Background(), http.MethodDelete, issuer+usersPath+"/"+u.name+"-jane", nil, bearer(administrator)...)
	})
	eventually(t, "provider "+u.name+" is known", func(ctx context.Context) error {
		a, err := try(ctx, http.MethodGet, issuer+"/oauth/login", nil, "Accept: text/html")
		if err == nil && !strings.Contains(a.body, "login/"+u.name+"?") {
			err = errors.New("the login page does not offer it")
		}
		return err
	})
	return u
}

// begin goes from a login page to the provider, and returns the address at which it is asked.
func (u *upstream) begin(t *testing.T, b *browser, login *page) *url.URL {
	t.Helper()
	for _, href := range login.links() {
		if strings.Contains(href, "login/"+u.name+"?") {
			at, err := login.address.Parse(href)
			if err != nil {
				t.Fatal(err)
			}
			p := b.open(t, at.String())
			p.leads(t, u.Base+"/authorize")
			return p.to
		}
	}
	t.Fatalf("the page does not offer %s: %s", u.name, clip(login.body))
	return nil
}

// consent is what the provider does, where its person is logged in: it sends the browser back to the address that this returns.
func (u *upstream) consent(t *testing.T, asked *url.URL) *url.URL {
	t.Helper()
	a := call(t, http.MethodGet, asked.String(), nil).must(t, http.StatusFound)
	back, err := url.Parse(a.header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	return back
}
