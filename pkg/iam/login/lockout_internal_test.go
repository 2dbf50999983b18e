package login

import "testing"

func FuzzFoldedNames(f *testing.F) {
	for _, s := range []string{"", "alice", " A  b ", "\uff41lice", "a\u00adb", "\u1e9e", "\u0130", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := folded(s)
		if folded(once) != once || folded(" "+s+"\t") != once {
			t.Errorf("%q is folded to %q, and that to %q", s, once, folded(once))
		}
	})
}
