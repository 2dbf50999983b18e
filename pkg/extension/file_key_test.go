package extension

import "testing"

// Reads of one another's file wait for each other: none of the file of another bundle.
func FuzzFilesAreToldApart(f *testing.F) { // S62
	f.Add("a", " b", "a ", "b")
	f.Add("1", "1:/dist", "11:", "/dist")
	f.Fuzz(func(t *testing.T, bundle, link, otherBundle, otherLink string) {
		a, b := fileKey{bundle, link}, fileKey{otherBundle, otherLink}
		if (a == b) != (a.text() == b.text()) {
			t.Errorf("%q and %q have the keys %q and %q", a, b, a.text(), b.text())
		}
	})
}
