package idptest_test

import (
	"os"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/aliyun"
	"kapis.dev/ks-apiserver/pkg/idp/cas"
	"kapis.dev/ks-apiserver/pkg/idp/github"
	"kapis.dev/ks-apiserver/pkg/idp/gitlab"
	"kapis.dev/ks-apiserver/pkg/idp/google"
	"kapis.dev/ks-apiserver/pkg/idp/oauth2"
	"kapis.dev/ks-apiserver/pkg/idp/oidc"
)

var block = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// entry is a provider of an example.
type entry struct {
	Name, Type, DisplayName, MappingMethod string
	Hidden, Disabled                       bool
	Provider                               map[string]any
}

func TestTheExamplesOfTheDocumentationOpen(t *testing.T) {
	text, err := os.ReadFile("../../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]idp.Type{}
	seen := map[string]int{}
	for _, kind := range []idp.Type{oidc.Type(), github.Type(), gitlab.Type(), google.Type(), oauth2.Type(), aliyun.Type(), cas.Type()} {
		types[kind.Name] = kind
	}
	for _, b := range block.FindAllSubmatch(text, -1) {
		for _, e := range entries(t, b[1]) {
			kind, ok := types[e.Type]
			if !ok {
				continue // tested elsewhere
			}
			raw, err := yaml.Marshal(e.Provider)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := kind.Open(raw, idp.OpenOptions{Name: e.Name}); err != nil {
				t.Errorf("the example of %s: %v", e.Type, err)
			}
			seen[e.Type]++
		}
	}
	for name := range types {
		if seen[name] != 2 {
			t.Errorf("%s has %d examples, want one as a Secret and one for the file", name, seen[name])
		}
	}
}

// entries parses an example of either form.
func entries(t *testing.T, text []byte) []entry {
	t.Helper()
	var example struct {
		APIVersion, Kind, Type string
		Metadata               struct {
			Name, Namespace string
			Labels          map[string]string
		}
		StringData     map[string]string
		Authentication struct{ IdentityProviders []entry }
	}
	if err := yaml.UnmarshalStrict(text, &example); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if example.Kind != "Secret" {
		return example.Authentication.IdentityProviders
	}
	if example.Metadata.Labels["config.kubesphere.io/type"] != "identityprovider" || example.Type != "config.kubesphere.io/identityprovider" ||
		example.Metadata.Namespace != "kubesphere-system" {
		t.Errorf("no Secret of a provider:\n%s", text)
	}
	var e entry
	if err := yaml.UnmarshalStrict([]byte(example.StringData["configuration.yaml"]), &e); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return []entry{e}
}
