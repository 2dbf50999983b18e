package egress_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/egress"
)

func TestSitesShareCredentialsByTheirRegisteredDomain(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"index.docker.io", "auth.docker.io", true},
		{"registry.gitlab.com", "gitlab.com", true},
		{"registry.example.com:5000", "auth.example.com", true},
		{"Registry.Example.com", "registry.example.com.", true},
		{"10.0.0.8:5000", "10.0.0.8:8443", true},
		{"[fd00::1]:5000", "[fd00::1]", true},
		{"10.0.0.8", "10.0.0.9", false},
		{"example.com", "example.org", false},
		{"a.co.uk", "b.co.uk", false},
		{"a.github.io", "b.github.io", false},
		{"a.tenant.svc", "b.tenant.svc", false},
		{"a.x.svc.cluster.local", "b.x.svc.cluster.local", false},
		{"a.x.svc.cluster.local", "a.x.svc.cluster.local:8080", true},
		{"com", "com.", true},
		{"registry", "auth", false},
		{"", "example.com", false},
	} {
		if got := egress.SameSite(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
		if got := egress.SameSite(c.b, c.a); got != c.want {
			t.Errorf("%s and %s: %v", c.b, c.a, got)
		}
	}
}
