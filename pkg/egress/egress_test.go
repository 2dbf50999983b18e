package egress_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/egress"
)

func TestAddressesAreCheckedByWhereTheyLead(t *testing.T) { // S20
	for address, want := range map[string]bool{
		"8.8.8.8": true, "10.0.0.1": true, "192.168.1.1": true, "172.16.0.9": true, "100.64.0.1": true, "2606:4700::1111": true, "fd12::1": true,
		"::ffff:10.0.0.1": true, "64:ff9b::8.8.8.8": true, "2002:0808:0808::1": true,
		"127.0.0.1": false, "127.8.8.8": false, "::1": false, "::ffff:127.0.0.1": false, "0.0.0.0": false, "0.1.2.3": false, "::": false,
		"169.254.169.254": false, "::ffff:169.254.169.254": false, "169.254.0.1": false, "fe80::1": false, "fe80::1%eth0": false, "fec0::1": false,
		"224.0.0.1": false, "239.255.255.250": false, "ff02::1": false, "255.255.255.255": false, "240.0.0.1": false,
		"100.100.100.200": false, "168.63.129.16": false, "192.0.0.192": false, "fd00:ec2::254": false, "fd20:ce::254": false,
		"64:ff9b::127.0.0.1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::7f00:1": false, "2002:7f00:1::": false, "2002:a9fe:a9fe::1": false,
		"2001:0:1::": false, "::127.0.0.1": false,
	} {
		if got := egress.Allowed(netip.MustParseAddr(address), false); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
	for address, want := range map[string]bool{"127.0.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "0.0.0.0": false, "169.254.169.254": false} {
		if got := egress.Allowed(netip.MustParseAddr(address), true); got != want {
			t.Errorf("with loopback, %s: %v, want %v", address, got, want)
		}
	}
	if egress.Allowed(netip.Addr{}, true) {
		t.Error("no address is allowed")
	}
}

// get requests a URL of a server on loopback.
func get(t *testing.T, o egress.Options, url string) error {
	t.Helper()
	tr := egress.NewTransport(o)
	t.Cleanup(tr.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

func TestNamesAndNumbersOfLoopbackAreRefusedAtTheDial(t *testing.T) { // S20
	hits := 0
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "[::]"} {
		if err := get(t, egress.Options{}, "http://"+host+":"+port); err == nil {
			t.Errorf("%s was reached", host)
		}
	}
	if err := get(t, egress.Options{}, srv.URL); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("the error does not say why: %v", err)
	}
	if hits > 0 {
		t.Fatalf("the server was asked %d times", hits)
	}
	if err := get(t, egress.Options{AllowLoopback: true}, srv.URL); err != nil || hits != 1 {
		t.Errorf("with the option: %v, %d requests", err, hits)
	}
}

func TestARedirectToAForbiddenAddressEnds(t *testing.T) { // S20
	srv := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/meta-data/", http.StatusFound))
	defer srv.Close()
	if err := get(t, egress.Options{AllowLoopback: true}, srv.URL); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("%v", err)
	}
}

func FuzzADisguiseOpensNothing(f *testing.F) { // S20: an address that is refused is refused in every form
	for _, a := range []string{"127.0.0.1", "169.254.169.254", "8.8.8.8", "10.1.2.3", "0.0.0.0", "100.100.100.200"} {
		b := netip.MustParseAddr(a).As4()
		f.Add(b[0], b[1], b[2], b[3])
	}
	f.Fuzz(func(t *testing.T, a, b, c, d byte) {
		plain := netip.AddrFrom4([4]byte{a, b, c, d})
		mapped := netip.AddrFrom16(plain.As16())
		translated := netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b, 12: a, b, c, d})
		tunnelled := netip.AddrFrom16([16]byte{0x20, 0x02, a, b, c, d, 15: 1})
		want := egress.Allowed(plain, false)
		for _, disguised := range []netip.Addr{mapped, translated, tunnelled} {
			if got := egress.Allowed(disguised, false); got != want {
				t.Errorf("%s is %v, %s is %v", plain, want, disguised, got)
			}
		}
	})
}

func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	if egress.NewTransport(egress.Options{}).Proxy != nil {
		t.Error("a proxy would connect in the place of the dialer")
	}
}

func TestCertificatesAreVerifiedByDefault(t *testing.T) { // S21
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	srv.Config.ErrorLog = nil
	defer srv.Close()
	if err := get(t, egress.Options{AllowLoopback: true}, srv.URL); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
	if err := get(t, egress.Options{AllowLoopback: true, SkipVerify: true}, srv.URL); err != nil {
		t.Errorf("declared insecure: %v", err)
	}
}
