package idptest

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
)

func (s Suite) addresses(t *testing.T) { // S20
	w := s.world(t)
	if !w.server() {
		return
	}
	p, err := s.Type.Open(encode(t, w.Settings), idp.OpenOptions{Name: "suite"})
	if err == nil { // an error is fine too
		for _, q := range w.asksOf(p) {
			call := q.prepare()
			before := w.line.Accepted()
			if err := within(t, func() error { return call(t.Context()) }); err == nil || w.line.Accepted() != before {
				t.Errorf("%s connects to this machine: %v", q.name, err)
			}
		}
	}
	if w.Handler == nil {
		return
	}
	for _, host := range []string{"169.254.169.254", "[fe80::1]", "0.0.0.0", "100.100.100.200", "[::ffff:169.254.169.254]"} {
		raw := strings.ReplaceAll(string(encode(t, w.Settings)), w.outside.Address, host)
		if !strings.Contains(raw, host) {
			return // it has no setting for its address
		}
		p, err := s.Type.Open([]byte(raw), idp.OpenOptions{Name: "suite", AllowLoopback: true})
		if err != nil {
			continue
		}
		if err := within(t, func() error { return p.Check(t.Context()) }); err == nil {
			t.Errorf("%s is asked", host)
		}
	}
}
