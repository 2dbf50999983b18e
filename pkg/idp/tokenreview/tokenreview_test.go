package tokenreview_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/tokenreview"
)

// webhook answers what a test says about tokens.
func webhook(t *testing.T, settings string, answer func(w http.ResponseWriter, r *http.Request, in authenticationv1.TokenReview)) idp.Bearer {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in authenticationv1.TokenReview
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&in); err != nil || r.Method != http.MethodPost {
			http.Error(w, "no TokenReview", http.StatusBadRequest)
			return
		}
		answer(w, r, in)
	}))
	t.Cleanup(srv.Close)
	p, err := tokenreview.Type().Open([]byte("url: "+srv.URL+"/review\n"+settings), idp.OpenOptions{AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	return p.(idp.Bearer)
}

func TestAWebhookNamesTheUserOfAToken(t *testing.T) {
	for _, tc := range []struct {
		name, settings, status string
		subject                string
		groups                 []string
		err                    error
	}{
		{"AUser", "", `{"authenticated":true,"user":{"username":"jane","uid":"7","groups":["devs"]}}`, "jane", nil, nil},
		{"Groups", "groupsPrefix: 'hook:'", `{"authenticated":true,"user":{"username":"jane","groups":["devs","system:masters"]}}`,
			"jane", []string{"hook:devs", "hook:system:masters"}, nil},
		{"AnAudience", "audiences: [ks]", `{"authenticated":true,"audiences":["x","ks"],"user":{"username":"jane"}}`, "jane", nil, nil},
		{"AnotherAudience", "audiences: [ks]", `{"authenticated":true,"audiences":["x"],"user":{"username":"jane"}}`, "", nil, idp.ErrRefused},
		{"NoAudience", "audiences: [ks]", `{"authenticated":true,"user":{"username":"jane"}}`, "", nil, idp.ErrRefused},
		{"NotAuthenticated", "", `{"authenticated":false,"error":"expired","user":{"username":"jane"}}`, "", nil, idp.ErrRefused},
		{"NobodyNamed", "", `{"authenticated":true,"user":{"uid":"7"}}`, "", nil, idp.ErrRefused},
		{"AComponentOfKubernetes", "", `{"authenticated":true,"user":{"username":"system:admin"}}`, "", nil, idp.ErrRefused},
		{"NoStatus", "", `{}`, "", nil, idp.ErrRefused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := webhook(t, tc.settings+"\nbearerToken: mine\n", func(w http.ResponseWriter, r *http.Request, in authenticationv1.TokenReview) {
				if in.Kind != "TokenReview" || in.APIVersion != "authentication.k8s.io/v1" || in.Spec.Token != "opaque" || r.Header.Get("Authorization") != "Bearer mine" {
					t.Errorf("got %+v of %q", in, r.Header.Get("Authorization"))
				}
				_, _ = fmt.Fprintf(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":%s}`, tc.status)
			})
			id, err := p.Bearer(t.Context(), "opaque")
			if !errors.Is(err, tc.err) || (err != nil) != (tc.err != nil) {
				t.Fatalf("got %v, want %v", err, tc.err)
			}
			if id == nil {
				id = &idp.Identity{}
			}
			if id.Subject != tc.subject || !slices.Equal(id.Groups, tc.groups) {
				t.Errorf("got %q of %q, want %q of %q", id.Subject, id.Groups, tc.subject, tc.groups)
			}
		})
	}
}

func TestAWebhookThatCanNotAnswerRefusesNobody(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"AnError": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret", http.StatusInternalServerError) },
		"ARedirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"NoJSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"AnotherKind": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"kind":"Status","status":{"authenticated":true}}`)
		},
		"WithoutEnd":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat(" ", 8<<20)) },
		"Unauthorized": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
	} {
		t.Run(name, func(t *testing.T) {
			p := webhook(t, "", func(w http.ResponseWriter, r *http.Request, _ authenticationv1.TokenReview) {
				if r.URL.Path != "/review" {
					t.Error("the token was sent on to " + r.URL.Path)
				}
				answer(w, r)
			})
			_, err := p.Bearer(t.Context(), "opaque")
			if !errors.Is(err, idp.ErrUnavailable) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "opaque") {
				t.Errorf("got %v, want ErrUnavailable without the token", err)
			}
			if p.Check(t.Context()) == nil {
				t.Error("the webhook passes for one that works")
			}
		})
	}
}

func TestTokensOfOthersAreSentToNoWebhook(t *testing.T) {
	for _, tc := range []struct {
		settings, token string
		want            bool
	}{
		{"", "opaque", true},
		{"", "a.b", true},
		{"", "eyJhbGciOiJub25lIn0.e30.x", false},
		{"tokenPrefix: hook_", "hook_x", true},
		{"tokenPrefix: hook_", "Hook_x", false},
		{"tokenPrefix: hook_", "x", false},
	} {
		p := webhook(t, tc.settings, func(http.ResponseWriter, *http.Request, authenticationv1.TokenReview) {})
		if got := p.Issued(tc.token); got != tc.want {
			t.Errorf("%s with %q: got %v, want %v", tc.token, tc.settings, got, tc.want)
		}
	}
}

func TestSettingsThatCanNotWorkAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ settings, names string }{
		"NoAddress":          {"tokenPrefix: x", "url"},
		"PlainHTTP":          {"url: http://hook.example/review", "url"},
		"APasswordInIt":      {"url: https://a:b@hook.example/review", "url"},
		"AnEmptyAudience":    {"url: https://hook.example/review\naudiences: ['']", "audiences"},
		"GroupsOfKubernetes": {"url: https://hook.example/review\ngroupsPrefix: 'system:'", "groupsPrefix"},
		"AnUnknownKey":       {"url: https://hook.example/review\nurI: x", "urI"},
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := tokenreview.Type().Open([]byte(tc.settings), idp.OpenOptions{}); err == nil || p != nil || !strings.Contains(err.Error(), tc.names) {
				t.Errorf("got %v, %v; want an error that names %s", p, err, tc.names)
			}
		})
	}
}
