package configsecret

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/kube"
)

const namespace = "kubesphere-system"

func secret(name, kind, text string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{LabelType: kind}},
		Data:       map[string][]byte{file: []byte(text), "kept": []byte("yes")},
	}
}

func review(t *testing.T, s *corev1.Secret) admission.Request {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return admission.Request{
		AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: namespace, Name: s.Name, Object: runtime.RawExtension{Raw: raw}},
	}
}

func TestATrustedClientGetsASecret(t *testing.T) { // S31, S35
	for name, c := range map[string]struct {
		kind, text string
		filled     bool
	}{
		"Trusted":              {oauthClient, "name: a\ntrusted: true\nredirectURIs: [x]\n", true},
		"TrustedWithOne":       {oauthClient, "name: a\ntrusted: true\nsecret: mine\n", false},
		"APublicClientHasNone": {oauthClient, "name: a\n", false},
		"AProvider":            {identityProvider, "name: a\ntrusted: true\n", false},
		"AnotherType":          {"other", "name: a\ntrusted: true\n", false},
		"NoYAML":               {oauthClient, "{", false},
		"Nothing":              {oauthClient, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			req := review(t, secret("s", c.kind, c.text))
			resp := (&Defaulter{Random: bytes.NewReader(bytes.Repeat([]byte{7}, secretBytes))}).Handle(t.Context(), req)
			if !resp.Allowed || (len(resp.Patches) > 0) != c.filled {
				t.Fatalf("%v, %v", resp.Result, resp.Patches)
			}
			if !c.filled {
				return
			}
			ops, err := json.Marshal(resp.Patches)
			if err != nil {
				t.Fatal(err)
			}
			patch, err := jsonpatch.DecodePatch(ops)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := patch.Apply(req.Object.Raw)
			if err != nil {
				t.Fatal(err)
			}
			s, set, err := read(raw)
			if err != nil || set.Secret != base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{7}, secretBytes)) || set.Name != "a" ||
				!strings.Contains(string(s.Data[file]), "redirectURIs") || string(s.Data["kept"]) != "yes" {
				t.Errorf("stored is %s, %v", s.Data[file], err)
			}
		})
	}
	if resp := (&Defaulter{Random: bytes.NewReader(nil)}).Handle(t.Context(), review(t, secret("s", oauthClient, "name: a\ntrusted: true"))); resp.Allowed {
		t.Error("without randomness there is a secret")
	}
}

func TestAMistakeInAConfigurationIsToldAtOnce(t *testing.T) {
	v := &Validator{Secrets: fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(
		secret("taken", oauthClient, "name: taken"), secret("corp", identityProvider, "name: corp"), secret("broken", oauthClient, "{")).Build()}
	for name, c := range map[string]struct {
		secret *corev1.Secret
		code   int32
	}{
		"Good":                  {secret("s", oauthClient, "name: a\nsecret: canary\naccessTokenMaxAgeSeconds: 600"), 200},
		"TheNameIsTaken":        {secret("s", oauthClient, "name: taken"), 409},
		"ItsOwnName":            {secret("taken", oauthClient, "name: taken"), 200},
		"TheNameOfAnotherType":  {secret("s", oauthClient, "name: corp"), 200},
		"AProvidersNameIsTaken": {secret("s", identityProvider, "name: corp"), 409},
		"NoName":                {secret("s", oauthClient, "secret: canary"), 422},
		"AShortLife":            {secret("s", oauthClient, "name: a\nsecret: canary\naccessTokenMaxAgeSeconds: 599"), 200},
		"AShortRest":            {secret("s", oauthClient, "name: a\nsecret: canary\naccessTokenInactivityTimeoutSeconds: -1"), 422},
		"AnUnknownGrantMethod":  {secret("s", oauthClient, "name: a\nsecret: canary\ngrantMethod: canary"), 422},
		"NoYAML":                {secret("s", oauthClient, "{canary"), 422},
		"AKeyTwice":             {secret("s", oauthClient, "name: a\nsecret: canary\nname: a"), 422},
		"AProvidersKeyTwice":    {secret("s", identityProvider, "name: a\nhidden: true\nhidden: true"), 422},
		"TooLong":               {secret("s", oauthClient, "name: a #"+strings.Repeat("x", maxFile)), 422},
		"AnotherType":           {secret("s", "other", "{"), 200},
	} {
		t.Run(name, func(t *testing.T) {
			resp := v.Handle(t.Context(), review(t, c.secret))
			if resp.Result.Code != c.code || strings.Contains(resp.Result.Message, "canary") {
				t.Errorf("%v, want %d", resp.Result, c.code)
			}
			if warned := len(resp.Warnings) > 0; warned != (name == "AShortLife") {
				t.Errorf("warnings %q", resp.Warnings)
			}
		})
	}
	if resp := v.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Update,
		Object: runtime.RawExtension{Raw: []byte("[")}}}); resp.Allowed || resp.Result.Code != http.StatusUnprocessableEntity {
		t.Errorf("no JSON: %v", resp.Result)
	}
}
