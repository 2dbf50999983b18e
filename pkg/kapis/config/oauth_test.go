package config_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
	kapisconfig "kapis.dev/ks-apiserver/pkg/kapis/config"
)

// visited is a Redirect provider with a secret.
type visited struct{ ClientSecret string }

func (visited) Check(context.Context) error { return nil }
func (visited) Begin(context.Context, idp.Begin) (string, error) {
	return "https://idp.example/canary", nil
}
func (visited) Finish(context.Context, idp.Callback) (*idp.Identity, error) { return nil, nil }

// ending is one with a page that logs people out.
type ending struct {
	visited
	page string
}

func (ending) Logout(context.Context, string, string, string) (string, error) {
	return "https://idp.example/logout?id_token_hint=canary", nil
}
func (e ending) EndSession() string { return e.page }

// S3, S41: the login page learns where a login begins, which is here, and nothing of a provider's or a client's configuration.
func TestTheLoginPageIsToldHowToLogInAndNoSecret(t *testing.T) {
	p := visited{"canary-secret"}
	h := kapisconfig.Handler{OAuth: &kapisconfig.OAuth{
		Issuer: kapisconfig.Issuer{URL: "https://ks.example/", AccessTokenMaxAge: 2 * time.Hour, MaximumClockSkew: 10 * time.Second},
		Clients: func() []kapisconfig.Client {
			return []kapisconfig.Client{{Name: "kubesphere", Trusted: true, RedirectURIs: []string{"https://console.example/oauth/redirect/hub"}}}
		},
		Providers: idptest.Directory(
			t,
			&idp.Entry{Name: "hub", Type: "GitHubIdentityProvider", DisplayName: "Hub", Mapping: idp.MapAuto, Provider: p},
			&idp.Entry{Name: "sso", Type: "OIDCIdentityProvider", Provider: ending{p, "https://idp.example/logout?client_id=ks"}}, // U34
			&idp.Entry{Name: "unreached", Type: "OIDCIdentityProvider", Provider: ending{p, ""}},
			&idp.Entry{Name: "cas", Type: "CASIdentityProvider", Provider: p},
			&idp.Entry{Name: "none", Type: "OIDCIdentityProvider", Provider: p},
			&idp.Entry{Name: "corp", Type: "LDAPIdentityProvider", DisplayName: "Company", Provider: &directory{Secret: "canary-password"}},
			&idp.Entry{
				Name:     "hidden",
				Type:     "OIDCIdentityProvider",
				Hidden:   true,
				Provider: p,
			},
			&idp.Entry{Name: "off", Type: "OIDCIdentityProvider", Disabled: true, Provider: p},
			&idp.Entry{Name: "wrong", Type: "OIDCIdentityProvider", Fault: errors.New("canary-fault")},
		),
		Console: func(provider string) (string, string) {
			if provider == "none" {
				return "kubesphere", ""
			}
			return "kubesphere", "https://console.example/oauth/redirect/" + provider
		},
	}}
	c := restful.NewContainer()
	c.Add(h.V1alpha2())
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/kapis/config.kubesphere.io/v1alpha2/configs/oauth", nil))
	var out struct {
		Issuer            map[string]any `json:"issuer"`
		IdentityProviders []struct {
			Name             string          `json:"name"`
			Hidden, Disabled bool            `json:",omitempty"`
			Provider         json.RawMessage `json:"provider"`
		} `json:"identityProviders"`
		Clients []map[string]any `json:"clients"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v %s", w.Code, err, w.Body)
	}
	if strings.Contains(w.Body.String(), "canary") {
		t.Errorf("a secret shows: %s", w.Body)
	}
	if out.Issuer["accessTokenMaxAge"] != 7.2e12 || out.Issuer["maximumClockSkew"] != 1e10 || len(out.Clients) != 1 || out.Clients[0]["name"] != "kubesphere" {
		t.Errorf("%s", w.Body)
	}
	want := map[string]string{
		"hub": `{"endpoint":{"authURL":"https://ks.example/oauth/login/hub"},"clientID":"kubesphere","redirectURL":"https://console.example/oauth/redirect/hub","scopes":["openid"]}`,
		"sso": `{"endpoint":{"authURL":"https://ks.example/oauth/login/sso","endSessionURL":"https://idp.example/logout?client_id=ks"},` +
			`"clientID":"kubesphere","redirectURL":"https://console.example/oauth/redirect/sso","scopes":["openid"]}`,
		"unreached": `{"endpoint":{"authURL":"https://ks.example/oauth/login/unreached"},"clientID":"kubesphere","redirectURL":"https://console.example/oauth/redirect/unreached","scopes":["openid"]}`,
		"cas":       `{"redirectURL":"https://console.example/oauth/redirect/cas","casServerURL":"https://ks.example/oauth/login/cas"}`,
		"corp":      `{"host":"Company"}`,
		"hidden":    `{}`,
		"off":       `{}`,
		"none":      `{}`,
	}
	for _, e := range out.IdentityProviders {
		if string(e.Provider) != want[e.Name] {
			t.Errorf("%s: %s, want %s", e.Name, e.Provider, want[e.Name])
		}
		if e.Hidden != (e.Name == "hidden") || e.Disabled != (e.Name == "off") {
			t.Errorf("%+v", e)
		}
		delete(want, e.Name)
	}
	if len(want) != 0 {
		t.Errorf("not shown: %v", want)
	}
}
