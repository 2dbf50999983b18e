package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// elsewhere are changes by which a credential would be sent to another address, or in another way, as merge patches of spec.
var elsewhere = map[string][]string{
	"Cluster": {
		`{"connection":{"kubernetesAPIEndpoint":"https://b.example.com"}}`, `{"connection":{"kubernetesAPIEndpoint":null}}`, `{"connection":{"type":"proxy"}}`,
		`{"connection":{"kubesphereAPIEndpoint":"https://b.example.com"}}`, `{"connection":{"externalKubernetesAPIEndpoint":"https://b.example.com"}}`,
		`{"connection":{"kubernetesAPIServerPort":6443}}`, `{"config":"eA=="}`, `{"connection":{"type":"proxy","kubeconfig":""}}`,
	},
	"Repository": {
		`{"url":"https://b.example.com"}`,
		`{"url":null}`,
		`{"caBundle":"x"}`,
		`{"insecure":true}`,
		`{"basicAuth":{"username":"v"}}`,
	},
	"Repo": {
		`{"url":"https://b.example.com"}`,
		`{"url":null}`,
		`{"credential":{"caFile":"x"}}`,
		`{"credential":{"insecureSkipTLSVerify":true}}`,
		`{"url":"https://b.example.com","credential":{"username":"v"}}`,
	},
}

// A credential that nobody may read stays with the address that it was written for: whoever may change the object, by whatever kind of write and at
// whichever door, changes that with a new credential, or without any. The superuser with kubectl too: he may read it, and write it again.
func TestACredentialIsSentToNoOtherAddress(t *testing.T) {
	proves(t, "S66")
	a, name, secret := admin(t), unique("sent"), unique("Canary")
	for kind, k := range credentials() {
		kubectlOutput(t, encode(t, k.object(name, secret)), "apply", "-f", "-")
		direct, kapisPath := "/apis/"+k.root()+"/"+name, "/kapis/"+k.root()+"/"+name
		t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, direct, nil) })
		before := specOf(t, direct)
		if !strings.Contains(before, secret) {
			t.Fatalf("%s: there is nothing to send: %s", kind, before)
		}
		// The webhooks may be on their way yet. Nothing is written by this.
		eventually(t, "the webhook of "+k.plural, a.is403(direct+"?dryRun=All", `{"spec":`+elsewhere[kind][0]+`}`))
		unmoved := func(how string, code int, body string) {
			t.Helper()
			if code != http.StatusForbidden || !strings.Contains(body, "stays as it was") || strings.Contains(body, secret) {
				t.Errorf("%s by %s: %d %s", kind, how, code, clip(body))
			}
			if now := specOf(t, direct); now != before {
				t.Fatalf("%s by %s: %s became %s", kind, how, before, now)
			}
		}
		for _, change := range elsewhere[kind] {
			next := changedSpec(t, a, direct, change)
			operations := []obj{{"op": "test", "path": "/metadata/name", "value": name}}
			operations = append(operations, asOperations(t, change)...)
			for _, door := range []string{direct, kapisPath, "/clusters/host" + direct, "/clusters/host" + kapisPath} {
				for how, w := range map[string]struct {
					method  string
					body    any
					headers []string
				}{
					"merge patch": {http.MethodPatch, `{"spec":` + change + `}`, []string{asMerge}},
					"JSON patch":  {http.MethodPatch, operations, []string{asJSONPatch}},
				} {
					r, err := a.do(t.Context(), w.method, door, w.body, w.headers...)
					if err != nil {
						t.Fatal(err)
					}
					if kind == "Repo" && how == "merge patch" && strings.Contains(door, "/kapis/") && r.code >= http.StatusBadRequest {
						r.code, r.body = http.StatusForbidden, "stays as it was; "+r.body // a route of the store, which looks at the index there first
					}
					unmoved(how+" "+change+" at "+door, r.code, r.body)
				}
				if strings.Contains(change, `"credential"`) {
					continue // a whole object with a part of it has no other part
				}
				r := a.put(t, door, func() obj { // as somebody sends it who read it
					o := decode[obj](t, a.must(t, http.StatusOK, http.MethodGet, direct, nil).body)
					o["spec"] = next
					return o
				})
				unmoved("PUT "+change+" at "+door, r.code, r.body)
			}
			if out, err := superuser(t, "", "patch", k.plural+"."+k.group, name, "--type=merge", "-p", `{"spec":`+change+`}`); err == nil ||
				!strings.Contains(out, "stays as it was") {
				t.Errorf("the superuser patches %s by %s: %s", kind, change, out)
			}
		}
		appliedElsewhere(t, a, k, name, direct, kapisPath, unmoved)
		harmlessAndNew(t, a, k, name, direct, secret)
	}
}

// appliedElsewhere applies a configuration that takes the address over.
func appliedElsewhere(t *testing.T, a caller, k *credential, name, direct, kapisPath string, unmoved func(how string, code int, body string)) {
	t.Helper()
	for _, door := range []string{direct, kapisPath} {
		o := k.object(name, "")
		spec := obj{"url": "https://b.example.com"}
		if k.kind == "Cluster" {
			spec = obj{"connection": obj{"kubernetesAPIEndpoint": "https://b.example.com"}}
		}
		o["spec"] = spec
		r, err := a.do(t.Context(), http.MethodPatch, door+"?fieldManager=other&force=true", encode(t, o), asApply)
		if err != nil {
			t.Fatal(err)
		}
		unmoved("apply at "+door, r.code, r.body)
	}
}

// harmlessAndNew makes the changes that are let through: what decides nothing, a new credential with another address, and another address without any.
func harmlessAndNew(t *testing.T, a caller, k *credential, name, direct, secret string) {
	t.Helper()
	harmless := `{"spec":{"description":"x"}}`
	if k.kind == "Cluster" {
		harmless = `{"spec":{"enable":true,"provider":"x"}}`
	}
	for _, door := range []string{direct, "/kapis" + strings.TrimPrefix(direct, "/apis")} {
		a.must(t, http.StatusOK, http.MethodPatch, door, harmless, asMerge)
		put := func(spec func(now any) any) {
			t.Helper()
			if r := a.put(t, door, func() obj {
				o := decode[obj](t, a.must(t, http.StatusOK, http.MethodGet, direct, nil).body)
				o["spec"] = spec(o["spec"])
				return o
			}); r.code != http.StatusOK {
				t.Fatalf("%s: PUT at %s: %d %s", k.kind, door, r.code, clip(r.body))
			}
		}
		put(func(now any) any { return now })
		if !strings.Contains(specOf(t, direct), secret) {
			t.Errorf("%s: a write by %s lost the credential", k.kind, door)
		}
		put(func(any) any {
			return decode[obj](t, strings.ReplaceAll(encode(t, k.spec("another"+name)), "a.example.com", "c.example.com"))
		})
		if text := specOf(t, direct); strings.Contains(text, secret) || !strings.Contains(text, "c.example.com") {
			t.Errorf("%s: a new address with a new credential: %s", k.kind, text)
		}
		put(func(any) any { return k.spec(secret) }) // back, for the next door
	}
}

// put replaces an object, and again where a controller has changed it meanwhile.
func (c caller) put(t *testing.T, path string, object func() obj) (r reply) {
	t.Helper()
	eventually(t, "nobody else writes", func(ctx context.Context) (err error) {
		if r, err = c.do(ctx, http.MethodPut, path, object()); err == nil && r.code == http.StatusConflict {
			err = fmt.Errorf("%s", clip(r.body))
		}
		return err
	})
	return r
}

// specOf is the spec of an object as kube-apiserver has it.
func specOf(t *testing.T, path string) string {
	t.Helper()
	return encode(t, decode[obj](t, stored(t, path))["spec"])
}

// changedSpec is the spec of an object as it is read, after a merge patch.
func changedSpec(t *testing.T, a caller, path, patch string) any {
	t.Helper()
	spec := decode[obj](t, a.must(t, http.StatusOK, http.MethodGet, path, nil).body)["spec"].(obj)
	merge(spec, decode[obj](t, patch))
	return spec
}

func merge(into, patch obj) {
	for key, v := range patch {
		inner, ok := v.(obj)
		switch have, is := into[key].(obj); {
		case v == nil:
			delete(into, key)
		case ok && is:
			merge(have, inner)
		default:
			into[key] = v
		}
	}
}

// asOperations is a merge patch of spec as operations of a JSON patch.
func asOperations(t *testing.T, patch string) []obj {
	t.Helper()
	var out []obj
	var walk func(path string, v obj)
	walk = func(path string, v obj) {
		for key, value := range v {
			at := path + "/" + key
			if inner, ok := value.(obj); ok {
				walk(at, inner)
			} else if value == nil {
				out = append(out, obj{"op": "remove", "path": at})
			} else {
				out = append(out, obj{"op": "add", "path": at, "value": value})
			}
		}
	}
	var all obj
	if err := json.Unmarshal([]byte(patch), &all); err != nil {
		t.Fatal(err)
	}
	walk("/spec", all)
	return out
}

// is403 returns a condition: a merge patch is refused.
func (c caller) is403(path, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.do(ctx, http.MethodPatch, path, patch, asMerge)
		if err == nil && r.code != http.StatusForbidden {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	}
}
