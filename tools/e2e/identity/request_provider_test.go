package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	authenticationv1 "k8s.io/api/authentication/v1"

	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// selfReview asks through the server who kube-apiserver takes the caller for: the user name, or an error with the answer's code.
func selfReview(ctx context.Context, transport http.RoundTripper, token string) (string, error) {
	const body = `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, issuer+"/apis/authentication.k8s.io/v1/selfsubjectreviews", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("%d", resp.StatusCode)
	}
	var review struct {
		Status struct {
			UserInfo struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	err = json.NewDecoder(resp.Body).Decode(&review)
	return review.Status.UserInfo.Username, err
}

// showing returns a transport whose connections show a certificate.
func showing(t *testing.T, c tls.Certificate) *http.Transport {
	transport := wire.Clone()
	transport.TLSClientConfig.Certificates = []tls.Certificate{c}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// A client certificate of a configured authority is its holder's login at each request, and nobody's when the authority is removed.
func TestACertificateAuthenticatesItsHolder(t *testing.T) {
	people, others := idptest.NewAuthority(t, "people", time.Now()), idptest.NewAuthority(t, "people", time.Now())
	name := unique("jane")
	holder := showing(t, people.Issue(t, pkix.Name{CommonName: name, Organization: []string{"system:masters"}}, 1))
	if who, err := selfReview(t.Context(), holder, ""); err == nil && who == name {
		t.Fatal("a certificate counts before its authority is configured")
	}
	holder.CloseIdleConnections() // this one was opened without the question for a certificate
	provider := provide(t, "people", "X509IdentityProvider", "  clientCAData: "+base64.StdEncoding.EncodeToString([]byte(people.PEM))+"\n")
	eventually(t, "the holder is known", func(ctx context.Context) error {
		defer holder.CloseIdleConnections()
		who, err := selfReview(ctx, holder, "")
		if err == nil && who != name {
			err = fmt.Errorf("got %q, want %q", who, name)
		}
		return err
	})
	if who, err := selfReview(t.Context(), holder, administrator); err != nil || who == name {
		t.Errorf("with a token too: got %q, %v; want the token's user", who, err)
	}
	if who, err := selfReview(t.Context(), holder, "nonsense"); err == nil {
		t.Errorf("with a wrong token: got %q, want it refused", who)
	}
	if who, err := selfReview(t.Context(), showing(t, others.Issue(t, pkix.Name{CommonName: name}, 1)), ""); err == nil {
		t.Errorf("a certificate of another authority: got %q, want no connection", who)
	}
	if who, err := selfReview(t.Context(), showing(t, people.Issue(t, pkix.Name{CommonName: "system:admin"}, 1)), ""); err == nil {
		t.Errorf("a name of Kubernetes: got %q, want it refused", who)
	}
	forget("idp-" + provider)
	eventually(t, "the holder is nobody", func(ctx context.Context) error {
		if who, err := selfReview(ctx, holder, ""); err == nil && who == name {
			return fmt.Errorf("the request is still %s's", who)
		}
		return nil
	})
}

// A token that an identity provider issued for this server is its user's login at each request; one for anybody else is nobody's.
func TestATokenOfAProviderAuthenticatesItsUser(t *testing.T) {
	u := newUpstream(t, "ci", "bearerAudiences: [ks-apiserver]")
	kid, key := u.Key()
	token := func(audience string) string {
		now := time.Now().Unix()
		return idptest.SignJWT(jose.RS256, key, kid, map[string]any{"iss": u.Issuer, "sub": u.name + "-sub", "aud": audience, "iat": now, "exp": now + 300,
			"preferred_username": u.name + "-jane"})
	}
	if who, err := selfReview(t.Context(), wire, token("ks-apiserver")); err != nil || who != u.name+"-jane" {
		t.Errorf("got %q, %v; want %s-jane", who, err, u.name)
	}
	for _, audience := range []string{idptest.ClientID, "", "ks-apiserver "} {
		if who, err := selfReview(t.Context(), wire, token(audience)); err == nil || err.Error() != "401" {
			t.Errorf("for the audience %q: got %q, %v; want 401", audience, who, err)
		}
	}
	forget("idp-" + u.name)
	eventually(t, "the provider is forgotten", func(ctx context.Context) error {
		if who, err := selfReview(ctx, wire, token("ks-apiserver")); err == nil {
			return fmt.Errorf("the request is still %s's", who)
		}
		return nil
	})
}

// A webhook says whose tokens are that begin as configured. It is sent no others: neither this server's nor anybody else's.
func TestAWebhookReviewsTokens(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]bool{}
	prefix := unique("hook") + "-"
	webhook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.Header.Get("Authorization") != "Bearer for-the-webhook" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		mu.Lock()
		asked[review.Spec.Token] = true
		mu.Unlock()
		subject, ok := strings.CutSuffix(review.Spec.Token, "-good")
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{Username: strings.TrimPrefix(subject, prefix)}}
		review.Spec.Token = ""
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // who does not get it, fails
	}))
	t.Cleanup(webhook.Close)
	provider := provide(t, "hook", "TokenReviewIdentityProvider",
		fmt.Sprintf("  url: %s\n  tokenPrefix: %s\n  bearerToken: for-the-webhook\n", webhook.URL, prefix))
	name := unique("jane")
	eventually(t, "the webhook's user is known", func(ctx context.Context) error {
		who, err := selfReview(ctx, wire, prefix+name+"-good")
		if err == nil && who != name {
			err = fmt.Errorf("got %q, want %q", who, name)
		}
		return err
	})
	for _, token := range []string{prefix + name, prefix + "system:admin-good", name + "-good"} {
		if who, err := selfReview(t.Context(), wire, token); err == nil || err.Error() != "401" {
			t.Errorf("%s: got %q, %v; want 401", token, who, err)
		}
	}
	if who, err := selfReview(t.Context(), wire, administrator); err != nil || who == name {
		t.Errorf("a token of this server: got %q, %v", who, err)
	}
	mu.Lock()
	for token := range asked {
		if !strings.HasPrefix(token, prefix) {
			t.Errorf("the webhook was sent the token %.20q, which has not the prefix %s", token, prefix)
		}
	}
	mu.Unlock()
	forget("idp-" + provider)
	eventually(t, "the provider is forgotten", func(ctx context.Context) error {
		if who, err := selfReview(ctx, wire, prefix+name+"-good"); err == nil {
			return fmt.Errorf("the request is still %s's", who)
		}
		return nil
	})
}
