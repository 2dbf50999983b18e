package controllermanager

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/redaction"
)

// A client that writes back what it read loses none of the redacted fields (S3).
func TestWhatIsHiddenIsKept(t *testing.T) {
	const old = `{"spec":{"connection":{"type":"direct","kubeconfig":"c2VjcmV0","token":"t"}}}`
	for name, c := range map[string]struct {
		resource, old, now, want string
	}{
		"AsItWasRead": {"clusters", old, `{"spec":{"connection":{"type":"direct"}},"status":{"n":12345678901234567}}`,
			`[{"op":"add","path":"/spec/connection/kubeconfig","value":"c2VjcmV0"},{"op":"add","path":"/spec/connection/token","value":"t"}]`},
		"OneOfTwo": {"clusters", old, `{"spec":{"connection":{"type":"direct","token":"new"}}}`,
			`[{"op":"add","path":"/spec/connection/kubeconfig","value":"c2VjcmV0"}]`},
		"ANewOne":           {"clusters", old, `{"spec":{"connection":{"kubeconfig":"new","token":"new"}}}`, ""},
		"OneThatIsEmptied":  {"clusters", old, `{"spec":{"connection":{"kubeconfig":"","token":null}}}`, ""},
		"WithoutWhatItIsIn": {"clusters", old, `{"spec":{}}`, ""},
		"OfAnotherType":     {"clusters", old, `{"spec":{"connection":7}}`, ""},
		"WithWhatTellsPeople": {"clusters", old, `{"spec":{"connection":{"type":"direct"},"provider":"x"}}`,
			`[{"op":"add","path":"/spec/connection/kubeconfig","value":"c2VjcmV0"},{"op":"add","path":"/spec/connection/token","value":"t"}]`},
		"WhereThereWasNone":     {"clusters", `{"spec":{}}`, `{"spec":{"connection":{}}}`, ""},
		"OfAKindWithoutSecrets": {"other", old, `{"spec":{"connection":{}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := redactedFieldWebhook{}.Handle(t.Context(), webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, Resource: metav1.GroupVersionResource{Group: "cluster.kubesphere.io", Version: "v1alpha1", Resource: c.resource},
				Object: runtime.RawExtension{Raw: []byte(c.now)}, OldObject: runtime.RawExtension{Raw: []byte(c.old)},
			}})
			var want []map[string]any
			if c.want != "" {
				if err := json.Unmarshal([]byte(c.want), &want); err != nil {
					t.Fatal(err)
				}
			}
			if !r.Allowed || len(r.Patches) != len(want) {
				t.Fatalf("%+v", r)
			}
			for _, w := range want {
				found := false
				for _, p := range r.Patches {
					found = found || p.Operation == w["op"] && p.Path == w["path"] && p.Value == w["value"]
				}
				if !found {
					t.Errorf("%+v, want %v", r.Patches, w)
				}
			}
		})
	}
	for _, raw := range []string{`{`, `[]`} {
		r := redactedFieldWebhook{}.Handle(t.Context(), webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, Resource: metav1.GroupVersionResource{Group: "cluster.kubesphere.io", Resource: "clusters"},
			Object: runtime.RawExtension{Raw: []byte(raw)}, OldObject: runtime.RawExtension{Raw: []byte(old)},
		}})
		if r.Allowed {
			t.Errorf("%s is let pass", raw)
		}
	}
}

// The kinds are named in the list, since this server itself removes fields of others: sessions, factors and lockouts.
func TestWhatIsKeptIsAskedAbout(t *testing.T) {
	for _, e := range fixed() {
		if e.path != pathKeep {
			continue
		}
		for _, r := range e.rules {
			for _, kind := range r.Resources {
				if len(redaction.Hidden(schema.GroupResource{Group: r.APIGroups[0], Resource: kind})) == 0 {
					t.Errorf("nothing of %s.%s is hidden", kind, r.APIGroups[0])
				}
			}
		}
	}
}

// A writer who may change where a credential is sent, but not read it, can't have it sent to their own server.
func TestWhatIsHiddenIsNotSentElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		now  string
		want bool
	}{
		"ToAnotherAddress":           {`{"spec":{"url":"https://b"}}`, false},
		"ToAnotherOneAsItIs":         {`{"spec":{"url":"https://b","credential":{"password":"p"}}}`, false},
		"InAnotherWay":               {`{"spec":{"url":"https://a","n":1}}`, false},
		"ToNoAddress":                {`{"spec":{}}`, false},
		"ToTheSameAddress":           {`{"spec":{"url":"https://a","description":"d"}}`, true},
		"ToAnotherOneWithANewOne":    {`{"spec":{"url":"https://b","credential":{"username":"u"}}}`, true},
		"ToAnotherOneWithAnEmptyOne": {`{"spec":{"url":"https://b","credential":{}}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := redactedFieldWebhook{}.Handle(t.Context(), webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Update,
				Resource:  metav1.GroupVersionResource{Group: "application.kubesphere.io", Version: "v2", Resource: "repos"},
				Object: runtime.RawExtension{
					Raw: []byte(c.now),
				},
				OldObject: runtime.RawExtension{Raw: []byte(`{"spec":{"url":"https://a","credential":{"password":"p"}}}`)},
			}})
			if r.Allowed != c.want || !c.want && !strings.Contains(r.Result.Message, " changes, and spec.credential.password stays as it was") {
				t.Errorf("%+v", r)
			}
		})
	}
}
