package google

import (
	"errors"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// at returns the type with a test server in place of Google.
func at(base *string) idp.Type { return typeAt(func() string { return *base }) }

func double(o idptest.Outside, hd any) (*idptest.Double, *idptest.OP) {
	op := idptest.NewOP(o.Base)
	if hd != nil {
		op.Claims["hd"] = hd
	}
	return &idptest.Double{
		Handler: op.Mux,
		Settings: map[string]any{"clientID": idptest.ClientID, "clientSecret": idptest.ClientSecret, "hostedDomains": []string{"example.com"}, "offline": true,
			"rootCAData": o.CA, "timeout": "20s"},
		Required: []string{"clientID", "clientSecret"}, Secrets: idptest.ServerSecrets(), Impatient: map[string]any{"timeout": "300ms"},
		Wrong: map[string]func(map[string]any){
			"secret":      func(s map[string]any) { s["clientSecret"] = "other" },
			"authorities": func(s map[string]any) { delete(s, "rootCAData") },
		},
		Person: idp.Identity{Subject: "4711-sub", Username: "Jane.Doe", DisplayName: "Jane Doe", Email: "jane@example.com", Lang: "en-GB"},
		Rename: func() { op.Set("preferred_username", "Jane.Roe") }, Remove: op.Remove,
	}, op
}

func TestSuite(t *testing.T) {
	var base string
	idptest.Suite{Type: at(&base), Start: func(_ *testing.T, o idptest.Outside) *idptest.Double {
		base = o.Base
		d, _ := double(o, "example.com")
		return d
	}}.Run(t)
}

func TestTheDomainIsTakenFromTheSignedToken(t *testing.T) {
	for name, test := range map[string]struct {
		hd      any
		allowed []string
		good    bool
	}{
		"ItsOwn": {"example.com", []string{"example.com"}, true}, "AnotherCase": {"Example.COM", []string{"example.com"}, true},
		"OneOfTwo":                   {"b.example", []string{"a.example", "b.example"}, true},
		"AnyIsTakenWhereNoneIsAsked": {nil, nil, true}, "Another": {"evil.example", []string{"example.com"}, false}, "None": {nil, []string{"example.com"}, false},
		"Empty": {"", []string{"example.com"}, false}, "AList": {[]string{"example.com"}, []string{"example.com"}, false},
		"ASuffix": {"evil-example.com", []string{"example.com"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var base string
			idptest.WithDouble(t, at(&base), func(o idptest.Outside) *idptest.Double {
				base = o.Base
				d, _ := double(o, test.hd)
				d.Settings["hostedDomains"] = test.allowed
				return d
			}, func(login func() (*idp.Identity, error)) {
				who, err := login()
				if test.good != (err == nil) || !test.good && !errors.Is(err, idp.ErrRefused) {
					t.Errorf("%+v, %v", who, err)
				}
			})
		})
	}
}

func TestADomainHasToBeOne(t *testing.T) {
	for _, bad := range []string{"", "*", "jane@example.com", "https://example.com"} {
		if _, err := Type().Open([]byte("{clientID: a, clientSecret: b, hostedDomains: ['"+bad+"']}"), idp.OpenOptions{}); err == nil ||
			!strings.Contains(err.Error(), "hostedDomains") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestTheIssuerIsGoogle(t *testing.T) {
	if _, err := Type().Open([]byte("{clientID: a, clientSecret: b, issuer: 'https://evil.example'}"), idp.OpenOptions{}); err == nil {
		t.Error("it can be another")
	}
}
