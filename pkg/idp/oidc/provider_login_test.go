package oidc

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

func double(o idptest.Outside, op *idptest.OP) *idptest.Double {
	return &idptest.Double{
		Handler: op.Mux,
		Settings: map[string]any{
			"issuer": o.Base, "clientID": idptest.ClientID, "clientSecret": idptest.ClientSecret, "scopes": []string{"openid", "profile", "email", "groups"},
			"groupsKey": "groups", "groupsPrefix": "up:", "rootCAData": o.CA, "timeout": "20s", "getUserInfo": false,
		},
		Required:  []string{"issuer", "clientID"},
		Addresses: []string{"issuer"},
		Secrets:   idptest.ServerSecrets(),
		Impatient: map[string]any{"timeout": "300ms"},
		Wrong: map[string]func(map[string]any){
			"secret":      func(s map[string]any) { s["clientSecret"] = "other" },
			"client":      func(s map[string]any) { s["clientID"] = "other" },
			"issuer":      func(s map[string]any) { s["issuer"] = o.Base + "/" },
			"authorities": func(s map[string]any) { delete(s, "rootCAData") },
			"keys":        func(s map[string]any) { s["endpoint"] = map[string]any{"jwksURL": o.Base + "/userinfo"} },
			"token":       func(s map[string]any) { s["endpoint"] = map[string]any{"tokenURL": o.Base + "/nowhere"} },
		},
		Person: idp.Identity{
			Subject:     "4711-sub",
			Username:    "Jane.Doe",
			DisplayName: "Jane Doe",
			Email:       "jane@example.com",
			Lang:        "en-GB",
			Groups:      []string{"up:dev", "up:staff"},
		},
		Rename: func() {
			op.Set("preferred_username", "Jane.Roe")
			op.Set("email", "roe@example.com")
		},
		SetGroups: func(groups []string) { op.Set("groups", groups) },
		Remove:    op.Remove,
	}
}

func TestSuiteByDiscovery(t *testing.T) {
	idptest.Suite{Type: Type(), Start: func(_ *testing.T, o idptest.Outside) *idptest.Double {
		d := double(o, idptest.NewOP(o.Base))
		d.Settings["groupsPrefix"] = "up:"
		return d
	}}.Run(t)
}

func TestSuiteByConfiguredAddresses(t *testing.T) { // S45: without discovery the signature is verified too
	idptest.Suite{Type: Type(), Start: func(_ *testing.T, o idptest.Outside) *idptest.Double {
		op := idptest.NewOP(o.Base)
		op.FormOnly = true
		op.Metadata = func(document map[string]any) { clear(document) }
		d := double(o, op)
		d.Settings["getUserInfo"] = true
		d.Settings["endpoint"] = map[string]any{"authURL": o.Base + "/authorize", "tokenURL": o.Base + "/token", "userInfoURL": o.Base + "/userinfo",
			"jwksURL": o.Base + "/keys", "endSessionURL": o.Base + "/logout"}
		d.Addresses = append(d.Addresses, "endpoint.authURL", "endpoint.tokenURL", "endpoint.userInfoURL", "endpoint.jwksURL", "endpoint.endSessionURL")
		delete(d.Wrong, "issuer") // can't be found without a user
		d.Wrong["keys"] = func(s map[string]any) { s["endpoint"].(map[string]any)["jwksURL"] = o.Base + "/userinfo" }
		d.Wrong["token"] = func(s map[string]any) { s["endpoint"].(map[string]any)["tokenURL"] = o.Base + "/nowhere" }
		return d
	}}.Run(t)
}
