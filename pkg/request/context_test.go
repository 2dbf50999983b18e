package request_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/request"
)

func TestOneCustomersIPv6AddressesAreOnePlace(t *testing.T) {
	for a, b := range map[string]string{
		"2001:db8:1:2::1":  "2001:db8:1:2:ffff::9",
		"::ffff:192.0.2.1": "192.0.2.1",
		"fe80::1%eth0":     "fe80::2",
		"undefined":        "",
	} {
		if got, want := request.NetworkOf(a), request.NetworkOf(b); got != want {
			t.Errorf("%q is %q, and %q is %q", a, got, b, want)
		}
	}
	for a, b := range map[string]string{"2001:db8:1:2::1": "2001:db8:1:3::1", "192.0.2.1": "192.0.2.2"} {
		if request.NetworkOf(a) == request.NetworkOf(b) {
			t.Errorf("%q and %q are one place", a, b)
		}
	}
}
