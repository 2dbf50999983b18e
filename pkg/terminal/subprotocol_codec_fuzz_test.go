package terminal

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// A message of a client is refused or read, by either protocol: sizes are what a terminal can have, and input is no longer than what was sent.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		"", "{", `{"Op":"stdin","Data":"ls\n"}`, `{"Op":"resize","Cols":80,"Rows":24}`, `{"Op":"resize","Cols":-1,"Rows":1e99}`, `{"Op":"stdin","Data":"\ud800"}`,
		"\x00ls", "\x04{\"Width\":80,\"Height\":24}", "\x04{}", "\xff\x00", "\x02x", `{"Op":"stdin","Data":["x"]}`,
	} {
		f.Add([]byte(seed), []byte("\xe2\x82"))
	}
	f.Fuzz(func(t *testing.T, raw, shown []byte) {
		for _, protocol := range Protocols() {
			w := wireOf(protocol)
			m, err := w.decode(raw)
			if len(m.input) > 3*len(raw)+4 || err != nil && (len(m.input) > 0 || m.size != nil) {
				t.Errorf("%s: %q is %+v, %v", protocol, raw, m, err)
			}
			if m.size != nil && (m.size.Width == 0 || m.size.Height == 0) {
				t.Errorf("%s: %q has the size %+v", protocol, raw, *m.size)
			}
			out := append(append(bytes.Clone(w.output(shown)), w.output(raw)...), w.rest()...) // each is valid until the next one
			if protocol == ProtocolFrames && !utf8.Valid(out) {
				t.Errorf("%q and %q are shown as %q", shown, raw, out)
			}
		}
	})
}
