package apiserver

import (
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/admission"
	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/store"
)

// A login at a provider makes no user of a name that a binding, a GroupBinding or a workspace names.
func TestANameThatAnythingNamesIsNotFree(t *testing.T) {
	index, err := rbac.NewIndex()
	if err != nil {
		t.Fatal(err)
	}
	p := &components{cfg: &config.Config{}, cluster: &rest.Config{Host: "https://127.0.0.1:1"}, client: fake.NewClientset(), rbac: index,
		users: iam.NewUserIndex(), guard: &admission.Guard{Holdings: index, Known: admission.NewCache()}}
	if p.sessions, err = session.New(session.Options{Users: p.users}); err != nil {
		t.Fatal(err)
	}
	if err := p.makeProviders(t.Context()); err != nil {
		t.Fatal(err)
	}
	for resource, raw := range map[string]string{
		"globalrolebindings": `{"metadata":{"name":"x"},"roleRef":{"kind":"GlobalRole","name":"r"},"subjects":[{"kind":"User","name":"ann"}]}`,
		"groupbindings":      `{"metadata":{"name":"x"},"groupRef":{"name":"ops"},"users":["bob"]}`,
		"workspaces":         `{"metadata":{"name":"x"},"spec":{"manager":"carol"}}`,
		"workspacetemplates": `{"metadata":{"name":"x"},"spec":{"template":{"spec":{"manager":"dave"}}}}`,
	} {
		for gvr, sink := range p.guard.Known.Sinks() {
			if gvr.Resource == resource {
				sink.Set(&store.Object{Name: "x", Raw: []byte(raw)})
			}
		}
		for gvr, sink := range p.rbac.Sinks() {
			if gvr.Resource == resource {
				sink.Set(&store.Object{Name: "x", Raw: []byte(raw)})
			}
		}
	}
	for name, named := range map[string]bool{"ann": true, "bob": true, "carol": true, "dave": true, "eve": false} {
		if p.people.Named(name) != named {
			t.Errorf("whether %q is named: %v", name, !named)
		}
	}
}
