package redaction

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/rawjson"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// S3: no kind shows a secret, in the object or in its last-applied configuration; and nothing else is lost.
func TestHiddenFieldsLeaveObjectsAndLastApplied(t *testing.T) {
	for claim, tc := range map[string]struct{ group, plural, object, want string }{
		"Password": {"iam.kubesphere.io", "users", `{"metadata":{"name":"a"},"spec":{"email":"e","password":"canary"}}`,
			`{"metadata":{"name":"a"},"spec":{"email":"e"}}`},
		"LastApplied": {"iam.kubesphere.io", "users",
			`{"metadata":{"annotations":{"a":"1","` + lastApplied +
				`":"{\"spec\":{\"email\":\"<e>\",\"password\":\"canary\"},\"metadata\":{\"annotations\":{}}}\n","b":"2"},"name":"a"},"spec":{"password":"canary"}}`,
			`{"metadata":{"annotations":{"a":"1","b":"2","` + lastApplied +
				`":"{\"spec\":{\"email\":\"<e>\"},\"metadata\":{\"annotations\":{}}}"},"name":"a"},"spec":{}}`},
		"LastAppliedAlone": {"iam.kubesphere.io", "users", `{"metadata":{"annotations":{"` + lastApplied + `":"{\"spec\":{\"password\":\"canary\"}}"}}}`,
			`{"metadata":{"annotations":{"` + lastApplied + `":"{\"spec\":{}}"}}}`},
		"LastAppliedThatIsBroken": {"iam.kubesphere.io", "users", `{"metadata":{"annotations":{"` + lastApplied + `":"canary{"}}}`,
			`{"metadata":{"annotations":{}}}`},
		"EscapedNames": {"iam.kubesphere.io", "users",
			`{"spec":{"p\u0061ssword":"canary"},"metadata":{"annotations":{"kubectl.kubernetes.io\/last-applied-configuration":"{\"spec\":{\"password\":\"canary\"}}"}}}`, `{"spec":{},"metadata":{"annotations":{"` + lastApplied + `":"{\"spec\":{}}"}}}`},
		"LastAppliedWithinItself": {"iam.kubesphere.io", "users", `{"metadata":{"annotations":{"` + lastApplied + `":"{\"metadata\":{\"annotations\":{\"` +
			lastApplied + `\":\"canary\"}}}"}}}`, `{"metadata":{"annotations":{"` + lastApplied + `":"{\"metadata\":{\"annotations\":{}}}"}}}`},
		"Kubeconfig": {"cluster.kubesphere.io", "clusters", `{"spec":{"connection":{"type":"direct","kubeconfig":"canary","token":"canary"}}}`,
			`{"spec":{"connection":{"type":"direct"}}}`},
		"Session": {"session.kapis.dev", "sessions",
			`{"spec":{"user":"a","credential":"canary"},"refresh":{"current":"canary","previous":"canary","generation":2},"upstream":{"hint":"canary","refresh":"canary"}}`, `{"spec":{"user":"a"},"refresh":{"generation":2},"upstream":{}}`},
		"APIKey": {"session.kapis.dev", "apikeys", `{"spec":{"user":"a","hash":"canary"}}`, `{"spec":{"user":"a"}}`},
		"Factor": {"session.kapis.dev", "factors", `{"spec":{"totp":{"secret":"canary","lastStep":1},"recovery":["canary"]}}`,
			`{"spec":{"totp":{"lastStep":1}}}`},
		"ManagedFields": {"session.kapis.dev", "factors",
			`{"metadata":{"managedFields":[{"manager":"a","fieldsV1":{"f:spec":{"f:recovery":{".":{},"v:\"canary\"":{}},"f:user":{}}}},{"manager":"b"}],"name":"a"}}`,
			`{"metadata":{"managedFields":[{"manager":"a","fieldsV1":{"f:spec":{"f:recovery":{},"f:user":{}}}},{"manager":"b"}],"name":"a"}}`},
		"ManagedFieldsInLastApplied": {"session.kapis.dev", "factors",
			`{"metadata":{"annotations":{"` + lastApplied + `":"{\"metadata\":{\"managedFields\":[{\"fieldsV1\":{\"f:spec\":{\"f:recovery\":{\"v:canary\":{}}}}}]}}"}}}`,
			`{"metadata":{"annotations":{"` + lastApplied + `":"{\"metadata\":{\"managedFields\":[{\"fieldsV1\":{\"f:spec\":{\"f:recovery\":{}}}}]}}"}}}`},
		"Repository": {"kubesphere.io", "repositories", `{"spec":{"url":"u","basicAuth":{"username":"a","password":"canary"}}}`,
			`{"spec":{"url":"u","basicAuth":{"username":"a"}}}`},
		"Repo": {"application.kubesphere.io", "repos", `{"spec":{"url":"u","credential":{"password":"canary"}}}`, `{"spec":{"url":"u"}}`},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := Of(in(tc.group, tc.plural)).Append([]byte("before "), tc.object)
			text, kept := strings.CutPrefix(string(got), "before ")
			if err != nil || !kept || !sameJSON(t, text, tc.want) || strings.Contains(text, "canary") {
				t.Errorf("%v\n%s, want\n%s", err, got, tc.want)
			}
		})
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatalf("%v: %s", err, a)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return reflect.DeepEqual(x, y)
}

// S3: a field that is hidden in answers of kube-apiserver is not stored in the cache either, nor are other fields that the kind's cache leaves out.
func TestWhatIsHiddenIsNotKept(t *testing.T) {
	also := rawjson.Cuts([]string{"spec", "other"}, []string{"metadata", "extra"})
	for _, gr := range withHidden() {
		object := `{"metadata":{"name":"a","extra":1,"managedFields":[{"x":"canary"}],"annotations":{"` + lastApplied + `":"canary"}},"spec":{"other":"canary"}}`
		for _, path := range Hidden(gr) {
			object = string(appendWith(nil, object, `"canary"`, path...))
		}
		i := NewIntake(gr, also)
		kept, err := i.Shown(object, "")
		if err != nil || strings.Contains(kept.String(), "canary") || strings.Contains(kept.String(), "extra") ||
			rawjson.GetText(kept.String(), "metadata", "name") != "a" || !i.Cuts() {
			t.Errorf("%v keeps %s, %v", gr, kept, err)
		}
		raw, err := i.Raw(object, "")
		for _, path := range Hidden(gr) {
			if err != nil || rawjson.GetText(raw.Unredacted(), path...) != "canary" {
				t.Errorf("%v: who follows it misses %v, %v", gr, path, err)
			}
		}
	}
	if Of(in("", "pods")) != nil || Hidden(in("", "secrets")) != nil || NewIntake(in("", "pods"), nil).Cuts() {
		t.Error("a kind that is answered as it is has hidden fields")
	}
}

// withHidden are the kinds that have hidden fields.
func withHidden() []schema.GroupResource {
	return []schema.GroupResource{
		in("iam.kubesphere.io", "users"), in("cluster.kubesphere.io", "clusters"), in("session.kapis.dev", "sessions"), in("session.kapis.dev", "apikeys"),
		in("session.kapis.dev", "factors"), in("session.kapis.dev", "lockouts"), in("kubesphere.io", "repositories"), in("application.kubesphere.io", "repos"),
	}
}

// For any object, its redacted form has no hidden field, and is valid.
func FuzzRedaction(f *testing.F) {
	f.Add(`{"spec":{"password":"x"}}`, `{"spec":{"password":"y"}}`)
	f.Add(`{"metadata":{"annotations":{"a":"b"}},"spec":null}`, `{"spec":[1],"metadata":{"annotations":{"`+lastApplied+`":"z"}}}`)
	f.Add(`{"metadata":[]}`, "{")
	x := Of(in("iam.kubesphere.io", "users"))
	f.Fuzz(func(t *testing.T, object, applied string) {
		var o map[string]any
		if json.Unmarshal([]byte(object), &o) == nil && o != nil {
			if m, ok := o["metadata"].(map[string]any); ok {
				m["annotations"] = map[string]any{lastApplied: applied}
				text, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				object = string(text)
			}
		}
		out, err := x.Append(nil, object)
		if err != nil {
			return
		}
		if !rawjson.Valid(string(out), 10_000) {
			t.Fatalf("%s became %s", object, out)
		}
		inner := rawjson.GetText(string(out), "metadata", "annotations", lastApplied)
		if rawjson.Get(string(out), "spec", "password") != "" || rawjson.Get(inner, "spec", "password") != "" {
			t.Fatalf("%s shows a password: %s", object, out)
		}
	})
}
