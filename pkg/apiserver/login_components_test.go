package apiserver

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"kapis.dev/ks-apiserver/pkg/web"
)

// S47: the console passes requests of browsers on with the headers that they have. If a login page believed X-Client-Ip, anyone could use up another user's
// attempts at that user's usual address.
func TestTheConsoleSaysWherePeopleAreWhereItLogsThemIn(t *testing.T) {
	const console, person = "10.244.1.2", "198.51.100.1"
	trust, err := web.ParseTrustedProxies([]string{"10.244.0.0/16"})
	if err != nil {
		t.Fatal(err)
	}
	a := &accounts{trust: trust}
	for path, want := range map[string]string{
		"/oauth/token": person, "/oauth/callback/github": person,
		"/oauth/login": console, "/oauth/login/ldap": console, "/oauth/account": console, "/oauth/device": console, "/oauth/authenticate": console,
		"/oauth/callbacks": console, "/oauth/login/../token": console, "/oauth/token/": console,
	} {
		r := httptest.NewRequest(http.MethodPost, "https://ks.example"+path, nil)
		r.RemoteAddr = console + ":1234"
		r.Header.Set("X-Client-Ip", person)
		if got := a.originOf(r).Source; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		r.Header.Set("X-Forwarded-For", "203.0.113.66")
		if got := a.originOf(r).Source; got != "203.0.113.66" {
			t.Errorf("%s through a proxy that says where people are: %s", path, got)
		}
	}
}
