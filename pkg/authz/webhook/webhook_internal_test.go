package webhook

import "testing"

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true,"denied":true,"reason":"é"}}`))
	f.Add([]byte(`{"kind":"SubjectAccessReview","status":{"allowed":true}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := read(text)
		if got.allowed && (got.denied || err != nil) || len(got.reason) > longestReason {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
