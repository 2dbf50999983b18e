package openapi

import "testing"

// Documents that are loaded once at a time have different keys, whatever kube-apiserver writes as a hash.
func FuzzDocumentsAreToldApart(f *testing.F) {
	f.Add("a b", "c", "a", "b c")
	f.Add(`a" "b`, "c", "a", `b" "c`)
	f.Fuzz(func(t *testing.T, hash, path, otherHash, otherPath string) {
		a, b := docKey{hash: hash, path: path}, docKey{hash: otherHash, path: otherPath}
		if a != b && a.text() == b.text() {
			t.Errorf("%+v and %+v are one", a, b)
		}
	})
}
