package resource

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// S3: no kind with a secret in it shows that, in the object or in what kubectl apply remembers of it; and nothing else is lost.
func TestHiddenFieldsLeaveObjectsAndLastApplied(t *testing.T) {
	for claim, tc := range map[string]struct{ group, plural, object, want string }{
		"Password": {iamGroup, "users", `{"metadata":{"name":"a"},"spec":{"email":"e","password":"canary"}}`, `{"metadata":{"name":"a"},"spec":{"email":"e"}}`},
		"LastApplied": {iamGroup, "users",
			`{"metadata":{"annotations":{"a":"1","` + lastApplied + `":"{\"spec\":{\"email\":\"<e>\",\"password\":\"canary\"},\"metadata\":{\"annotations\":{}}}\n","b":"2"},"name":"a"},"spec":{"password":"canary"}}`,
			`{"metadata":{"annotations":{"a":"1","b":"2","` + lastApplied + `":"{\"spec\":{\"email\":\"<e>\"},\"metadata\":{\"annotations\":{}}}"},"name":"a"},"spec":{}}`},
		"LastAppliedAlone":        {iamGroup, "users", `{"metadata":{"annotations":{"` + lastApplied + `":"{\"spec\":{\"password\":\"canary\"}}"}}}`, `{"metadata":{"annotations":{"` + lastApplied + `":"{\"spec\":{}}"}}}`},
		"LastAppliedThatIsBroken": {iamGroup, "users", `{"metadata":{"annotations":{"` + lastApplied + `":"canary{"}}}`, `{"metadata":{"annotations":{}}}`},
		"EscapedNames":            {iamGroup, "users", `{"spec":{"p\u0061ssword":"canary"},"metadata":{"annotations":{"kubectl.kubernetes.io\/last-applied-configuration":"{\"spec\":{\"password\":\"canary\"}}"}}}`, `{"spec":{},"metadata":{"annotations":{"` + lastApplied + `":"{\"spec\":{}}"}}}`},
		"LastAppliedWithinItself": {iamGroup, "users", `{"metadata":{"annotations":{"` + lastApplied + `":"{\"metadata\":{\"annotations\":{\"` + lastApplied + `\":\"canary\"}}}"}}}`, `{"metadata":{"annotations":{"` + lastApplied + `":"{\"metadata\":{\"annotations\":{}}}"}}}`},
		"Kubeconfig":              {"cluster.kubesphere.io", "clusters", `{"spec":{"connection":{"type":"direct","kubeconfig":"canary","token":"canary"}}}`, `{"spec":{"connection":{"type":"direct"}}}`},
		"Session":                 {"session.kapis.dev", "sessions", `{"spec":{"user":"a","credential":"canary"},"refresh":{"current":"canary","previous":"canary","generation":2},"upstream":{"hint":"canary","refresh":"canary"}}`, `{"spec":{"user":"a"},"refresh":{"generation":2},"upstream":{}}`},
		"APIKey":                  {"session.kapis.dev", "apikeys", `{"spec":{"user":"a","hash":"canary"}}`, `{"spec":{"user":"a"}}`},
		"Factor":                  {"session.kapis.dev", "factors", `{"spec":{"totp":{"secret":"canary","lastStep":1},"recovery":["canary"]}}`, `{"spec":{"totp":{"lastStep":1}}}`},
		"Repository":              {"kubesphere.io", "repositories", `{"spec":{"url":"u","basicAuth":{"username":"a","password":"canary"}}}`, `{"spec":{"url":"u","basicAuth":{"username":"a"}}}`},
		"Repo":                    {"application.kubesphere.io", "repos", `{"spec":{"url":"u","credential":{"password":"canary"}}}`, `{"spec":{"url":"u"}}`},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := RedactionOf(in(tc.group, tc.plural)).Append([]byte("before "), tc.object)
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

// S3: what is hidden in answers of kube-apiserver is not kept for answers out of the cache either.
func TestWhatIsHiddenIsNotKept(t *testing.T) {
	schemas := Schemas()
	for gr, s := range schemas {
		for _, path := range Hidden(gr) {
			cut := s.Cut
			for _, step := range path {
				if _, named := cut[step]; !named {
					t.Errorf("%v keeps %s", gr, strings.Join(path, "."))
					break
				}
				cut = cut[step]
			}
		}
	}
	if RedactionOf(core("pods")) != nil || Hidden(core("secrets")) != nil {
		t.Error("a kind that is answered as it is has hidden fields")
	}
}

// Whatever the object, what is made of it has no hidden field, and is valid.
func FuzzRedaction(f *testing.F) {
	f.Add(`{"spec":{"password":"x"}}`, `{"spec":{"password":"y"}}`)
	f.Add(`{"metadata":{"annotations":{"a":"b"}},"spec":null}`, `{"spec":[1],"metadata":{"annotations":{"`+lastApplied+`":"z"}}}`)
	f.Add(`{"metadata":[]}`, "{")
	x := RedactionOf(in(iamGroup, "users"))
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
