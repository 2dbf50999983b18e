package lookup_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/helm/lookup"
)

// says answers with a body.
type says string

func (body says) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(body)))}, nil
}

// X40: what a template reads of a Secret is in nothing that the process says, also where the values of the release have nothing of it.
func TestX40NothingIsSaidOfSecretsThatTemplatesRead(t *testing.T) {
	const canary = "Y2FuYXJ5LW9mLWEtc2VjcmV0" // canary-of-a-secret
	secret := `{"kind":"Secret","type":"Opaque","data":{"password":"` + canary + `","name":"c2hvcC1vbmU="}}`
	for path, c := range map[string]struct {
		body   string
		hidden bool
	}{
		"/api/v1/namespaces/a/secrets/b":       {secret, true},
		"/api/v1/namespaces/a/secrets":         {`{"kind":"SecretList","items":[` + secret + `]}`, true},
		"/api/v1/namespaces/a/configmaps/b":    {secret, false},
		"/apis/apps/v1/namespaces/a/secrets/b": {secret, false},
		"/api/v1/namespaces/a/secrets/c":       {strings.Replace(secret, "Opaque", "helm.sh/release.v1", 1), false},
	} {
		h := &helm.Hidden{}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://kube.example"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := lookup.Hide(says(c.body), func(add func(*helm.Hidden)) { add(h) }, "shop-one").RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		if _ = answer.Body.Close(); string(body) != c.body {
			t.Errorf("%s: templates read %s", path, body)
		}
		l := &helm.Line{Event: helm.Event{Message: "the password is canary-of-a-secret of shop-one"}, Error: &helm.Error{Message: "spec: Invalid value: " + canary},
			Result: &helm.Result{Changes: []helm.Change{{Object: helm.Object{Name: "web-canary-of-a-secret"}}}}}
		h.Redactor().Clean(l)
		out, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(out); (strings.Contains(got, "canary") || strings.Contains(got, canary)) == c.hidden || !strings.Contains(got, "shop-one") {
			t.Errorf("%s: it says %s", path, got)
		}
	}
}

func TestX40SecretsThatCantBeHiddenAreNotRead(t *testing.T) {
	for name, body := range map[string]string{"more than is looked through": `{"data":{"a":"` + strings.Repeat("A", 8<<20) + `"}}`,
		"no JSON": "k8s\x00", "data that is no base64": `{"data":{"a":"canary!"}}`} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://kube.example/api/v1/secrets", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := lookup.Hide(says(body), func(func(*helm.Hidden)) {}).RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		if err == nil || strings.Contains(fmt.Sprint(err), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
