package gitlab_test

import (
	"net/http"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/gitlab"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

func TestSuite(t *testing.T) {
	idptest.Suite{Type: gitlab.Type(), Start: func(_ *testing.T, o idptest.Outside) *idptest.Double {
		s := idptest.NewServer()
		s.FormOnly = true
		me := map[string]any{
			"sub":                "1234",
			"name":               "Jane Doe",
			"nickname":           "jane",
			"preferred_username": "jane",
			"email":              "jane@example.com",
			"email_verified":     true,
			"groups":             []string{"acme", "acme/dev"},
		}
		s.Mux.HandleFunc("GET /gitlab/oauth/authorize", s.Authorize)
		s.Mux.HandleFunc("POST /gitlab/oauth/token", s.Token)
		s.Mux.HandleFunc("GET /gitlab/oauth/userinfo", s.Protected(func(w http.ResponseWriter, _ *http.Request) { idptest.WriteJSON(w, http.StatusOK, me) }))
		return &idptest.Double{
			Handler: s.Mux,
			Settings: map[string]any{
				"clientID":     idptest.ClientID,
				"clientSecret": idptest.ClientSecret,
				"baseURL":      o.Base + "/gitlab/",
				"groups":       true,
				"groupsPrefix": "gitlab:",
				"rootCAData":   o.CA,
				"timeout":      "20s",
			},
			Required:  []string{"clientID", "clientSecret"},
			Addresses: []string{"baseURL"},
			Secrets:   idptest.ServerSecrets(),
			Impatient: map[string]any{"timeout": "300ms"},
			Wrong: map[string]func(map[string]any){
				"secret":      func(s map[string]any) { s["clientSecret"] = "other" },
				"authorities": func(s map[string]any) { delete(s, "rootCAData") },
				"address":     func(s map[string]any) { s["baseURL"] = o.Base },
			},
			Person: idp.Identity{
				Subject:     "1234",
				Username:    "jane",
				DisplayName: "Jane Doe",
				Email:       "jane@example.com",
				Groups:      []string{"gitlab:acme", "gitlab:acme/dev"},
			},
			NoNonce: true,
			Rename: func() {
				me["preferred_username"] = "june"
				me["nickname"] = "june"
			},
			SetGroups: func(groups []string) { me["groups"] = groups },
			Remove:    s.Remove,
		}
	}}.Run(t)
}

func TestSettingsWithoutEffectAreRefused(t *testing.T) { // U33
	for _, text := range []string{"{clientID: a, clientSecret: b, groupsPrefix: x}", "{clientID: a, clientSecret: b, scopes: [email]}",
		"{clientID: a, clientSecret: b, groups: true, groupsPrefix: 'system:'}"} {
		if _, err := gitlab.Type().Open([]byte(text), idp.OpenOptions{}); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
