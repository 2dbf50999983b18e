package source

import "testing"

// Reads for one another wait for each other: none for another object's chart.
func FuzzAttemptsAreToldApart(f *testing.F) { // S62
	f.Add("a", "/1", "a/", "1")
	f.Add("1", "1:a", "11:", "a")
	f.Add("", "0:", "0:", "")
	f.Fuzz(func(t *testing.T, name, version, otherName, otherVersion string) {
		a, b := Attempt{name, version}, Attempt{otherName, otherVersion}
		if (a == b) != (a.text() == b.text()) {
			t.Errorf("%q and %q have the keys %q and %q", a, b, a.text(), b.text())
		}
	})
}
