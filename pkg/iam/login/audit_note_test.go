package login_test

import (
	"context"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/iam/login"
)

// O14: the event of a login has the user who logs in, also if the password is wrong; what somebody typed who is no user is in none.
func TestAnEventTellsNoNameThatNobodyHas(t *testing.T) {
	d := newDoors(t, 1)
	for _, c := range []struct{ name, password, provider, want string }{
		{"alice@example.com", iamtest.Password, "", "alice"},
		{"alice", "Wrong-123", "", "alice"},
		{"Typed-Password-1", "Wrong-123", "", audit.Unknown},
		{"Typed-Password-1", "Wrong-123", "none", ""}, // the caller is told that there is no such provider
	} {
		e := &audit.Event{}
		_, err := d.all[0].Password(context.WithValue(t.Context(), audit.Key{}, e),
			login.Attempt{Login: c.name, Password: c.password, Provider: c.provider, Origin: iam.Origin{Source: home}})
		if (err == nil) != (c.password == iamtest.Password) {
			t.Errorf("%s: %v", c.name, err)
		}
		if e.Login.Username != c.want || c.provider == "" && (e.Login.Verb != audit.VerbLogin || e.Login.Method != "password") {
			t.Errorf("%s: the event says %+v", c.name, e.Login)
		}
		if text := string(audit.AppendJSON(nil, e)); strings.Contains(text, "Typed") || strings.Contains(text, c.password) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}
