package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/oauth/ratelimit"
)

func (s *server) review(t testing.TB, body string) (authenticationv1.TokenReview, reply) {
	t.Helper()
	r := do(t, request(t, http.MethodPost, s.URL+"/oauth/authenticate", body, map[string]string{"Content-Type": "application/json"}))
	var out authenticationv1.TokenReview
	_ = json.Unmarshal([]byte(r.text), &out)
	return out, r
}

func reviewOf(version, tok, audiences string) string {
	return `{"apiVersion":"` + version + `","kind":"TokenReview","metadata":{"creationTimestamp":null},"spec":{"token":"` + tok + `","audiences":[` + audiences +
		`]}}`
}

// keysOnly knows one API key.
func keysOnly(_ context.Context, tok string) (*authenticator.Response, bool, error) {
	switch tok {
	case "ksk_good":
		return &authenticator.Response{
			User: &user.DefaultInfo{Name: "robot", Extra: map[string][]string{"authentication.kapis.dev/credential": {"api-key"}}},
		}, true, nil
	case "ksk_reads":
		return &authenticator.Response{User: &user.DefaultInfo{Name: "robot", Extra: map[string][]string{"authentication.kapis.dev/scope": {"read"}}}}, true, nil
	case "ksk_system":
		return &authenticator.Response{User: &user.DefaultInfo{Name: "system:admin"}}, true, nil
	case "ksk_later":
		return nil, false, iam.ErrUnavailable
	}
	return nil, false, errors.New("no")
}

// T7662-5: kube-apiserver's webhook learns the user of a token, in the version that it asks in.
func TestTokenReview(t *testing.T) {
	f := newReplicas(t, 1, func(s *settings) {
		s.edit = func(o *Options) { o.OtherTokens = authenticator.TokenFunc(keysOnly) }
	})
	s := f.servers[0]
	access, refresh := s.login(t)
	id := s.redeem(t, s.codeOf(t), nil).str("id_token")
	for name, test := range map[string]struct {
		version, token, audiences string
		user, answered            string
	}{
		"v1":                         {"authentication.k8s.io/v1", access, "", "alice", ""},
		"v1beta1":                    {"authentication.k8s.io/v1beta1", access, "", "alice", ""},
		"our audience":               {"authentication.k8s.io/v1", access, `"x","kapis:host","` + issuerURL + `"`, "alice", "kapis:host " + issuerURL},
		"kube-apiserver's audience":  {"authentication.k8s.io/v1", access, `"https://kubernetes.default.svc"`, "alice", ""},
		"API key":                    {"authentication.k8s.io/v1", "ksk_good", "", "robot", ""},
		"API key for reading (U36)":  {"authentication.k8s.io/v1", "ksk_reads", "", "", ""}, // kube-apiserver would let it write
		"refresh token":              {"authentication.k8s.io/v1", refresh, "", "", ""},
		"ID token":                   {"authentication.k8s.io/v1", id, "", "", ""},
		"garbage":                    {"authentication.k8s.io/v1", "x", "", "", ""},
		"empty":                      {"authentication.k8s.io/v1beta1", "", "", "", ""},
		"a user of the system":       {"authentication.k8s.io/v1", "ksk_system", "", "", ""},
		"long":                       {"authentication.k8s.io/v1", strings.Repeat(".", 9000), "", "", ""},
		"session that is over (S36)": {"authentication.k8s.io/v1", s.over(t), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, r := s.review(t, reviewOf(test.version, test.token, test.audiences))
			if r.code != http.StatusOK || got.Kind != "TokenReview" || got.APIVersion != test.version || got.Status.Authenticated != (test.user != "") ||
				got.Status.User.Username != test.user ||
				strings.Join(got.Status.Audiences, " ") != test.answered || got.Spec.Token != "" || r.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%d %s", r.code, r.text)
			}
			if test.user == "alice" && (got.Status.User.UID != "uid-alice" || strings.Join(got.Status.User.Groups, " ") != "dev system:authenticated") {
				t.Errorf("%+v", got.Status.User)
			}
			if test.user == "robot" && len(got.Status.User.Extra) != 1 {
				t.Errorf("%+v", got.Status.User)
			}
		})
	}
	if got, r := s.review(t, `{"spec":{"token":"`+access+`"}}`); !got.Status.Authenticated || got.APIVersion != "authentication.k8s.io/v1" {
		t.Errorf("%d %s", r.code, r.text)
	}
	for name, body := range map[string]string{"no JSON": "x", "another kind": `{"kind":"Pod"}`, "another group": `{"apiVersion":"v1","kind":"TokenReview"}`,
		"another version": reviewOf("authentication.k8s.io/v2", "x", "")} {
		if _, r := s.review(t, body); r.code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, r.code, r.text)
		}
	}
	wants{415, "invalid_request"}.check(t, do(t, request(t, http.MethodPost, s.URL+"/oauth/authenticate", "token=x", nil)))
	if _, r := s.review(t, reviewOf("authentication.k8s.io/v1", strings.Repeat("x", protocol.MaxBody), "")); r.code != http.StatusRequestEntityTooLarge {
		t.Errorf("a long body: %d", r.code)
	}
	if _, r := s.review(t, reviewOf("authentication.k8s.io/v1", "ksk_later", "")); r.code != http.StatusServiceUnavailable { // U26
		t.Errorf("when it can't be told: %d", r.code)
	}
}

// over is a token whose session has ended.
func (s *server) over(t testing.TB) string {
	t.Helper()
	access, _ := s.login(t)
	a, err := s.verifier.Access(access)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.sessions.End(t.Context(), a.Session, "test"); err != nil {
		t.Fatal(err)
	}
	return access
}

// T7662-1: a flood of invalid tokens is limited, and no valid one is refused.
func TestTokenReviewSlowsScanningDown(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	access, _ := s.login(t)
	bad := reviewOf("authentication.k8s.io/v1", "x", "")
	for range ratelimit.FailuresAtOnce {
		if _, r := s.review(t, bad); r.code != http.StatusOK {
			t.Fatal(r.code)
		}
	}
	if _, r := s.review(t, bad); r.code != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" {
		t.Errorf("%d", r.code)
	}
	if got, r := s.review(t, reviewOf("authentication.k8s.io/v1", access, "")); !got.Status.Authenticated {
		t.Errorf("a good token: %d %s", r.code, r.text)
	}
}

// Each client has a limit of its own, whatever its name: a name that begins with another limit's key does not share that limit.
func TestALimitIsOfOneClientOrOfTokens(t *testing.T) {
	l, now := ratelimit.New(1, 1), time.Unix(0, 0)
	l.Failed(ratelimit.Key{Kind: ratelimit.AccessToken, Source: "192.0.2.1"}, now)
	for _, other := range []ratelimit.Key{
		{Kind: ratelimit.ClientSecret, Name: "review", Source: "192.0.2.1"},
		{Kind: ratelimit.ClientSecret, Source: "192.0.2.1"},
		{Kind: ratelimit.AccessToken, Name: "192.0.2.1"},
		{Kind: ratelimit.UserCode, Source: "192.0.2.1"},
	} {
		if l.Exhausted(other, now) {
			t.Errorf("%+v is exhausted by bad tokens", other)
		}
	}
	if !l.Exhausted(ratelimit.Key{Kind: ratelimit.AccessToken, Source: "192.0.2.1"}, now) {
		t.Error("bad tokens are not counted")
	}
}
