package token

import "time"

// MACs returns MACs (HMAC-SHA-256) of a message for one use, one for each key that is valid now. The first is the one to issue; a MAC
// that comes back is good if it equals any of them. There is none if no key is valid now. No Purpose has a zero byte: they are words of
// this program, some of which end with the name of a provider or a UID.
func (s *KeySet) MACs(p Purpose, message string, now time.Time) [][]byte {
	out := make([][]byte, 0, len(s.macs))
	for _, fresh := range []bool{true, false} { // a key that is not in use yet only verifies
		for i := range s.macs {
			if m := &s.macs[i]; alive(time.Time{}, m.Retire, now) && fresh == !now.Before(m.NotBefore) {
				out = append(out, m.sum("kapis.dev mac 1\x00"+string(p)+"\x00"+message))
			}
		}
	}
	return out
}
