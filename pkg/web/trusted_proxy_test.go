package web_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/web"
)

const maxUserAgent = 256 // bytes of a User-Agent that are recorded

func TestOnlyTrustedProxiesSayWhereARequestComesFrom(t *testing.T) {
	trust, err := web.ParseTrustedProxies([]string{"10.244.0.0/16", "::1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		peer, client, forwarded, want string
	}{
		"NoProxy":                    {"192.0.2.7:1234", "", "", "192.0.2.7"},
		"AStrangerSaysNothing":       {"192.0.2.7:1234", "198.51.100.1", "198.51.100.2", "192.0.2.7"},
		"TheConsole":                 {"10.244.1.2:1234", "198.51.100.1", "", "198.51.100.1"},
		"TheConsoleWithoutOne":       {"10.244.1.2:1234", "undefined", "", "10.244.1.2"},
		"MappedIntoIPv6":             {"[::ffff:10.244.1.2]:1234", "::ffff:198.51.100.1", "", "198.51.100.1"},
		"AnotherProxy":               {"[::1]:1234", "", "198.51.100.1", "198.51.100.1"},
		"TheLastHopThatIsNotTrusted": {"[::1]:1234", "", "6.6.6.6, 198.51.100.1, 10.244.9.9", "198.51.100.1"},
		"NothingBeforeAStranger":     {"[::1]:1234", "", "10.244.3.3, 198.51.100.1", "198.51.100.1"},
		"AllTrusted":                 {"[::1]:1234", "", "10.244.3.3", "10.244.3.3"},
		"WithPort":                   {"[::1]:1234", "", "198.51.100.1:8080", "198.51.100.1"},
		"Garbage":                    {"[::1]:1234", "", "198.51.100.1, <script>", "::1"},
		"TooLongCutsTheBeginning":    {"[::1]:1234", "", strings.Repeat("6.6.6.6,", 4000) + "198.51.100.1", "198.51.100.1"},
		"NoPeer":                     {"@", "198.51.100.1", "", ""},
		"ClientsAddressPassedOn":     {"10.244.1.2:1", "198.51.100.1", "198.51.100.2", "198.51.100.2"}, // S47: else each try could claim another address
	} {
		t.Run(name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: test.peer, Header: http.Header{}}
			if test.client != "" {
				r.Header.Set("X-Client-Ip", test.client)
			}
			if test.forwarded != "" {
				r.Header.Set("X-Forwarded-For", test.forwarded)
			}
			if got, _ := trust.OriginOfConsole(r); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			got, _ := trust.Origin(r)
			r.Header.Del("X-Client-Ip")
			if want, _ := trust.OriginOfConsole(r); got != want { // S47: the console passes on what browsers write there
				t.Errorf("with X-Client-Ip %q, without it %q", got, want)
			}
			if got, _ := web.TrustedProxies(nil).Origin(r); test.peer != "@" && !strings.Contains(test.peer, got) && got != "10.244.1.2" {
				t.Errorf("with nobody trusted %q", got)
			}
		})
	}
	r := &http.Request{RemoteAddr: "[::1]:1", Header: http.Header{"X-Client-Ip": {"1.1.1.1", "2.2.2.2"}}}
	if got, _ := trust.OriginOfConsole(r); got != "::1" {
		t.Errorf("of two headers %q was taken", got)
	}
	if _, err := web.ParseTrustedProxies([]string{"10.0.0.0/33"}); err == nil {
		t.Error("a range that is none was taken")
	}
}

func TestWhatAClientCallsItselfIsCutAndCleaned(t *testing.T) {
	for in, want := range map[string]string{
		"curl/8": "curl/8", "a\nb\x1b[0m\x00": "ab[0m", strings.Repeat("é", 200): strings.Repeat("é", 128),
		strings.Repeat("x", 255) + "é": strings.Repeat("x", 255), "\xff\xfe": "",
	} {
		if _, got := web.TrustedProxies(nil).Origin(&http.Request{Header: http.Header{"User-Agent": {in}}}); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}

func FuzzOrigin(f *testing.F) {
	f.Add("10.0.0.1:1", "undefined", "1.2.3.4, 10.0.0.2")
	f.Add("[fe80::1%eth0]:1", "::ffff:1.2.3.4", ",,,")
	trust := web.TrustedProxies{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, peer, client, forwarded string) {
		r := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Client-Ip": {client}, "X-Forwarded-For": {forwarded}, "User-Agent": {client}}}
		source, agent := trust.OriginOfConsole(r)
		if source != "" {
			if a, err := netip.ParseAddr(source); err != nil || a.Is4In6() || a.Zone() != "" {
				t.Errorf("source %q", source)
			}
		}
		if len(agent) > maxUserAgent {
			t.Errorf("agent of %d bytes", len(agent))
		}
	})
}
