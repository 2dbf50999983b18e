package aliyun_test

import (
	"net/http"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/aliyun"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

func start(wrap bool) func(*testing.T, idptest.Outside) *idptest.Double {
	return func(_ *testing.T, o idptest.Outside) *idptest.Double {
		s := idptest.NewServer()
		me := map[string]any{"sub": "10b99f39", "username": "jane", "nickname": "Jane Doe", "email": "jane@example.com", "ou_id": "32a97f3a"}
		s.Mux.HandleFunc("GET /userinfo", s.Protected(func(w http.ResponseWriter, _ *http.Request) {
			answer := me
			if wrap {
				answer = map[string]any{"success": true, "code": "200", "data": me}
			}
			idptest.WriteJSON(w, http.StatusOK, answer)
		}))
		return &idptest.Double{
			Handler: s.Mux,
			Settings: map[string]any{
				"clientID":     idptest.ClientID,
				"clientSecret": idptest.ClientSecret,
				"scopes":       []string{"read"},
				"rootCAData":   o.CA,
				"timeout":      "20s",
				"endpoint":     map[string]any{"authURL": o.Base + "/authorize", "tokenURL": o.Base + "/token", "userInfoURL": o.Base + "/userinfo"},
			},
			Required:  []string{"clientID", "clientSecret", "endpoint.authURL", "endpoint.tokenURL", "endpoint.userInfoURL"},
			Addresses: []string{"endpoint.authURL", "endpoint.tokenURL", "endpoint.userInfoURL"},
			Secrets:   idptest.ServerSecrets(),
			Impatient: map[string]any{"timeout": "300ms"},
			Wrong: map[string]func(map[string]any){
				"secret":      func(s map[string]any) { s["clientSecret"] = "other" },
				"authorities": func(s map[string]any) { delete(s, "rootCAData") },
			},
			Person:  idp.Identity{Subject: "10b99f39", Username: "jane", DisplayName: "Jane Doe", Email: "jane@example.com"},
			NoNonce: true,
			Rename:  func() { me["username"] = "june" },
			Remove:  s.Remove,
		}
	}
}

func TestSuite(t *testing.T) {
	idptest.Suite{Type: aliyun.Type(), Start: start(false)}.Run(t)
}

func TestSuiteOfTheFirstGeneration(t *testing.T) {
	idptest.Suite{Type: aliyun.Type(), Start: start(true)}.Run(t)
}
