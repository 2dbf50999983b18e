package oauth2_test

import (
	"net/http"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
	"kapis.dev/ks-apiserver/pkg/idp/oauth2"
)

func TestSuite(t *testing.T) {
	idptest.Suite{Type: oauth2.Type(), Start: func(_ *testing.T, o idptest.Outside) *idptest.Double {
		s := idptest.NewServer()
		me := map[string]any{"id": 17, "name": "jane", "full": map[string]any{"name": "Jane Doe"}, "mail": "jane@example.com", "teams": []string{"staff", "dev"}}
		s.Mux.HandleFunc("GET /me", s.Protected(func(w http.ResponseWriter, _ *http.Request) { idptest.WriteJSON(w, http.StatusOK, me) }))
		return &idptest.Double{
			Handler: s.Mux,
			Settings: map[string]any{
				"clientID":       idptest.ClientID,
				"clientSecret":   idptest.ClientSecret,
				"scopes":         []string{"profile"},
				"rootCAData":     o.CA,
				"timeout":        "20s",
				"endpoint":       map[string]any{"authURL": o.Base + "/authorize?tenant=1", "tokenURL": o.Base + "/token", "userInfoURL": o.Base + "/me"},
				"subjectKey":     "id",
				"usernameKey":    "name",
				"displayNameKey": "full.name",
				"emailKey":       "mail",
				"groupsKey":      "teams",
				"groupsPrefix":   "up:",
			},
			Required:  []string{"clientID", "subjectKey", "endpoint.authURL", "endpoint.tokenURL", "endpoint.userInfoURL"},
			Addresses: []string{"endpoint.authURL", "endpoint.tokenURL", "endpoint.userInfoURL"},
			Secrets:   idptest.ServerSecrets(),
			Impatient: map[string]any{"timeout": "300ms"},
			Wrong: map[string]func(map[string]any){
				"secret":      func(s map[string]any) { s["clientSecret"] = "other" },
				"authorities": func(s map[string]any) { delete(s, "rootCAData") },
				"token":       func(s map[string]any) { s["endpoint"].(map[string]any)["tokenURL"] = o.Base + "/nowhere" },
			},
			Person:    idp.Identity{Subject: "17", Username: "jane", DisplayName: "Jane Doe", Email: "jane@example.com", Groups: []string{"up:dev", "up:staff"}},
			NoNonce:   true,
			Rename:    func() { me["name"] = "june" },
			SetGroups: func(groups []string) { me["teams"] = groups },
			Remove:    s.Remove,
		}
	}}.Run(t)
}
