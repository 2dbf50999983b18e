package helm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// X23, X40: nothing that a child says has a hidden text, as it is, quoted or in base64; names of objects keep ordinary values, and no secret one, which is in
// them in lower case.
func TestX40NothingSaysWhatIsHidden(t *testing.T) {
	h := &helm.Hidden{}
	h.Add("grafana-main", 8, "release")
	h.AddSecret("Canary-\"One\"\nsecond-Canary", 4, "release")
	h.AddSecret("abcd", 4)
	h.AddSecret("release", 4, "release")
	r := h.Redactor()
	text := `grafana-main says Canary-"One", Canary-\"One\", second-Canary, abcd, Q2FuYXJ5LSJPbmUiCnNlY29uZC1DYW5hcnk= of release`
	l := &helm.Line{Event: helm.Event{Message: text}, Error: &helm.Error{Message: text}, Result: &helm.Result{Manifest: text, Kept: []string{text},
		Release: &helm.Release{Description: text}, Changes: []helm.Change{
			{Object: helm.Object{Kind: "Secret", Name: "grafana-main-second-canary", Namespace: "abcd"}, Problem: text, Fields: []string{text}},
			{Object: helm.Object{Kind: "ConfigMap", Name: "grafana-main", Namespace: "release"}}}}}
	r.Clean(l)
	raw, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.ToLower(string(raw)); strings.Contains(got, "canary") || strings.Contains(got, "q2fu") || !strings.Contains(got, "release") {
		t.Errorf("it says %s", raw)
	}
	first, second := l.Result.Changes[0].Object, l.Result.Changes[1].Object
	if first.Name != "grafana-main-(value)" || first.Namespace != "abcd" || second.Name != "grafana-main" || second.Namespace != "release" {
		t.Errorf("the objects are %+v and %+v", first, second)
	}
	(&helm.Hidden{}).Redactor().Clean(&helm.Line{}) // without anything
}

func FuzzNothingSaysWhatIsHidden(f *testing.F) {
	f.Add("password", "the password is password")
	f.Add("a\nb\nlonger-line", "longer-line")
	f.Add("\x00\"quoted\"", "")
	f.Fuzz(func(t *testing.T, secret, text string) {
		if len(secret) < 6 || len(secret) > 200 || strings.TrimSpace(secret) != secret || strings.Contains("(value)", secret) { //nolint:gocritic // it is meant so
			return
		}
		h := &helm.Hidden{}
		h.AddSecret(secret, 4)
		l := &helm.Line{Event: helm.Event{Message: text[:min(len(text), 500)] + " " + secret}}
		h.Redactor().Clean(l)
		if strings.Contains(l.Message, secret) && !strings.Contains("(value)"+text, secret) {
			t.Errorf("%q says %q", l.Message, secret)
		}
	})
}
