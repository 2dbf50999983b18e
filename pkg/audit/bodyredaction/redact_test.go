package bodyredaction_test

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/audit/bodyredaction"
	"kapis.dev/ks-apiserver/pkg/redaction"
)

const canary = "Kq7Zr4Canary"

// kinds are the kinds with fields that are hidden, by their resource.
var kinds = []struct {
	resource, kind string
	paths          [][]string
}{
	{"secrets", "Secret", [][]string{{"data", "a"}, {"stringData", "a"}}},
	{"workloadtemplates", "", [][]string{{"data", "a"}, {"stringData", "a"}}},
	{"users", "User", redaction.Hidden(schema.GroupResource{Group: "iam.kubesphere.io", Resource: "users"})},
	{"clusters", "Cluster", redaction.Hidden(schema.GroupResource{Group: "cluster.kubesphere.io", Resource: "clusters"})},
	{"sessions", "Session", redaction.Hidden(schema.GroupResource{Group: "session.kapis.dev", Resource: "sessions"})},
	{"apikeys", "APIKey", redaction.Hidden(schema.GroupResource{Group: "session.kapis.dev", Resource: "apikeys"})},
	{"factors", "Factor", redaction.Hidden(schema.GroupResource{Group: "session.kapis.dev", Resource: "factors"})},
	{"lockouts", "Lockout", redaction.Hidden(schema.GroupResource{Group: "session.kapis.dev", Resource: "lockouts"})},
	{"repositories", "Repository", redaction.Hidden(schema.GroupResource{Group: "kubesphere.io", Resource: "repositories"})},
	{"repos", "Repo", redaction.Hidden(schema.GroupResource{Group: "application.kubesphere.io", Resource: "repos"})},
	{"serviceaccounts", "TokenRequest", [][]string{{"status", "token"}}},
	{"tokenreviews", "TokenReview", [][]string{{"spec", "token"}}},
	{"platformconfigs", "PlatformConfig", [][]string{{"data", "a"}, {"spec", "any"}}},
	{"identityproviders", "", [][]string{{"provider", "any"}}},
	{"installplans", "InstallPlan", [][]string{{"spec", "config"}, {"spec", "clusterScheduling", "overrides", "member"}}},
	{"applications", "", [][]string{{"spec", "values"}}},
	{"applicationreleases", "ApplicationRelease", [][]string{{"spec", "values"}}},
	{"apps", "", [][]string{{"package"}}},
	{"applicationversions", "", [][]string{{"package"}}},
	{"pods", "Pod", [][]string{{"spec", "password"}, {"spec", "dbPasswd"}, {"a", "clientSecret"}, {"a", "access_token"}, {"a", "apiKey"}, {"a", "api-key"},
		{"a", "PrivateKey"}, {"metadata", "annotations", "example.com/kubeconfig"}, {"a", "authorization"}, {"a", "credentials", "any"},
		{"a", "paſſword"}, {"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"}, {"metadata", "managedFields"}}},
}

// object returns an object that has a value at a path.
func object(path []string, value any) map[string]any {
	for _, step := range slices.Backward(path) {
		value = map[string]any{step: value}
	}
	return value.(map[string]any) //nolint:forcetypeassert // there is no empty path
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func pointer(path []string) string {
	out := ""
	for _, step := range path {
		out += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
	}
	return out
}

// O36, O19: nothing of a hidden field is left, whatever the body is: an object, a list, an item of a list that has another kind, or a
// patch of any type, at, above and below the field.
func TestNoHiddenFieldIsLeft(t *testing.T) {
	for _, k := range kinds {
		for _, path := range k.paths {
			for shape, value := range map[string]any{
				"Text": canary, "Object": map[string]any{"a": canary, "name": "n"}, "List": []any{canary, map[string]any{"b": canary}},
			} {
				o := object(path, value)
				whole := object(path, value)
				whole["kind"], whole["apiVersion"] = k.kind, "v1"
				upper := object(append([]string{strings.ToUpper(path[0][:1]) + path[0][1:]}, path[1:]...), value)
				bodies := map[string]any{
					"MergePatch": o, "Upper": upper, "Object": whole, "Items": map[string]any{"kind": k.kind + "List", "items": []any{o}},
					"UnnamedList": map[string]any{"items": []any{o}, "totalItems": 1},
					"Replace":     []any{map[string]any{"op": "replace", "path": pointer(path), "value": value}},
					"Test":        []any{map[string]any{"value": value, "path": pointer(path), "op": "test"}},
					"Above":       []any{map[string]any{"op": "add", "path": pointer(path[:1]), "value": o[path[0]]}},
					"Whole":       []any{map[string]any{"op": "add", "path": "", "value": o}},
					"Below":       []any{map[string]any{"op": "add", "path": pointer(path) + "/0/x", "value": canary}},
				}
				for name, body := range bodies {
					b := &bodyredaction.Body{Text: text(t, body), Resources: []string{"unknown", k.resource}, Namespace: "default"}
					check(t, strings.Join([]string{k.resource, strings.Join(path, "."), shape, name}, " "), b.JSON())
				}
				if k.kind == "" || shape == "Object" && k.kind == "TokenRequest" {
					continue
				}
				table := map[string]any{"kind": "Table", "rows": []any{map[string]any{"object": whole, "cells": []any{"n", 1}}}}
				for name, body := range map[string]any{"AnItemOfAnotherList": map[string]any{"kind": "List", "items": []any{whole}}, "Table": table} {
					b := &bodyredaction.Body{Text: text(t, body)}
					check(t, strings.Join([]string{k.kind, strings.Join(path, "."), shape, name}, " "), b.JSON())
				}
			}
		}
	}
}

func check(t *testing.T, name string, out []byte) {
	t.Helper()
	if !json.Valid(out) {
		t.Errorf("%s: %q is no JSON", name, out)
	}
	if strings.Contains(string(out), canary) {
		t.Errorf("%s: %s", name, out)
	}
}

// O36: secrets within texts, arguments and variables of containers are not left either.
func TestNoSecretWithinATextIsLeft(t *testing.T) {
	for name, body := range map[string]string{
		"Env":             `{"spec":{"containers":[{"env":[{"name":"DB_PASSWORD","value":"` + canary + `"}]}]}}`,
		"EnvReversed":     `{"env":[{"value":"` + canary + `","name":"db.token"}]}`,
		"Argument":        `{"args":["--token=` + canary + `"]}`,
		"NextArgument":    `{"args":["--password","` + canary + `"]}`,
		"File":            `{"data":{"app.conf":"user: a\npassword: ` + canary + `\n"}}`,
		"JSONInAText":     `{"metadata":{"annotations":{"a":"{\"clientSecret\":\"` + canary + `\"}"}}}`,
		"Header":          `{"a":"Authorization: Bearer ` + canary + `"}`,
		"Bearer":          `{"a":"Bearer ` + canary + `"}`,
		"URL":             `{"a":"https://me:` + canary + `@example.com"}`,
		"Key":             `{"a":"-----BEGIN RSA PRIVATE KEY-----\n` + canary + `"}`,
		"APIKey":          `{"a":"ksk_` + canary + `"}`,
		"Configuration":   `{"items":[{"metadata":{"namespace":"kubesphere-system"},"data":{"a":"` + canary + `"}}]}`,
		"PatchOfEnv":      `[{"op":"replace","path":"/spec/containers/0/env/1/value","value":"` + canary + `"}]`,
		"PatchOfArgument": `[{"op":"add","path":"/spec/containers/0/args/-","value":"` + canary + `"}]`,
		"PatchOfVariable": `[{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"TOKEN","value":"` + canary + `"}}]`,
		"DeepPatch":       `[{"op":"add","path":"` + strings.Repeat("/a", 30_000) + `","value":"` + canary + `"}]`,
		"PatchElsewhere":  `[{"op":"add","path":3,"value":"` + canary + `"}]`,
		"StrategicDelete": `{"$deleteFromPrimitiveList/tokens":["` + canary + `"]}`,
	} {
		check(t, name, (&bodyredaction.Body{Text: []byte(body), Resources: []string{"pods"}}).JSON())
	}
	encoded := base64.StdEncoding.EncodeToString([]byte("auth:\n  password: " + canary + "\n"))
	binary := &bodyredaction.Body{Text: []byte(`{"binaryData":{"a":"` + encoded + `"}}`), Resources: []string{"configmaps"}}
	if out := binary.JSON(); strings.Contains(string(out), encoded) {
		t.Errorf("in base64: %s", out)
	}
	b := &bodyredaction.Body{Text: []byte(`{"data":{"a":"` + canary + `"}}`), Resources: []string{"configmaps"}, Namespace: "kubesphere-system"}
	check(t, "a patch of the configuration", b.JSON())
	apply := "apiVersion: v1\nkind: Secret\nstringData:\n  a: " + canary + "\n"
	check(t, "apply", (&bodyredaction.Body{Text: []byte(apply), YAML: true, Resources: []string{"secrets"}}).JSON())
	refusal := `{"kind":"Status","status":"Failure","message":"a is ` + canary + `","reason":"Invalid","code":422,"details":{"name":"n","causes":[{"message":"` +
		canary + `","field":"spec.a"}]},"other":"` + canary + `"}`
	out := (&bodyredaction.Body{Text: []byte(refusal), Failure: true}).JSON()
	check(t, "a refusal", out)
	for _, want := range []string{`"reason":"Invalid"`, `"field":"spec.a"`, `"name":"n"`, `"code":422`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("a refusal lacks %s: %s", want, out)
		}
	}
}

// What is no secret stays as it was sent, so that an event tells what was done.
func TestWhatIsNoSecretIsLeft(t *testing.T) {
	for name, body := range map[string]string{
		"Deployment": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"app":"web"},"name":"web"},"spec":{"replicas":3,"template":` +
			`{"spec":{"automountServiceAccountToken":false,"containers":[{"args":["--port","80"],"env":[{"name":"PORT","value":"80"},{"name":"T",` +
			`"valueFrom":{"secretKeyRef":{"key":"k","name":"s"}}}],"image":"nginx:1.27"}],"imagePullSecrets":[{"name":"s"}],"volumes":` +
			`[{"name":"v","secret":{"secretName":"s"}}]}}}}`,
		"Patch": `[{"op":"replace","path":"/spec/replicas","value":4}]`,
		"Role":  `{"rules":[{"apiGroups":["rbac.authorization.k8s.io"],"resources":["secrets"],"verbs":["get"]}]}`,
		"Large": `{"n":12345678901234567890,"t":"<&>"}`,
		"Unset": `{"spec":{"password":null}}`,
	} {
		if out := (&bodyredaction.Body{Text: []byte(body), Resources: []string{"deployments"}}).JSON(); string(out) != body {
			t.Errorf("%s:\ngot  %s\nwant %s", name, out, body)
		}
	}
	user := `{"kind":"User","metadata":{"name":"bob"},"spec":{"email":"bob@example.com","password":"` + canary + `"}}`
	want := strings.Replace(user, canary, bodyredaction.Redacted, 1)
	if out := (&bodyredaction.Body{Text: []byte(user), Resources: []string{"users"}}).JSON(); string(out) != want {
		t.Errorf("got %s, want %s", out, want)
	}
}

// What can't be parsed is not recorded: nobody knows what is in it.
func TestWhatCantBeParsedIsLeftOut(t *testing.T) {
	bomb := "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"
	for name, b := range map[string]bodyredaction.Body{
		"Empty": {}, "Text": {Text: []byte("password=" + canary)}, "Cut": {Text: []byte(`{"a":"` + canary)}, "Two": {Text: []byte(`{} {"a":1}`)},
		"String": {Text: []byte(`"` + canary + `"`)}, "Binary": {Text: []byte("k8s\x00" + canary)}, "Anchors": {Text: []byte(bomb), YAML: true},
		"Form": {Text: []byte("a=b"), YAML: true}, "Base64": {Text: []byte(base64.StdEncoding.EncodeToString([]byte(canary)))},
	} {
		if out := b.JSON(); out != nil {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// No body makes it panic, and what it returns is JSON.
func FuzzRedaction(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"token: x"]}`, `[{"op":"add","path":"/a~1b","value":{"items":[{}]}}]`, `{"kind":"SecretList","items":[[]]}`} {
		f.Add(seed)
	}
	all := []string{"secrets", "users", "configmaps"}
	f.Fuzz(func(t *testing.T, body string) {
		for _, failure := range []bool{false, true} {
			out := (&bodyredaction.Body{Text: []byte(body), Resources: all, Failure: failure}).JSON()
			if out != nil && !json.Valid(out) {
				t.Errorf("%q", out)
			}
		}
	})
}
