package reference_test

import (
	"slices"
	"testing"

	"kapis.dev/ks-apiserver/pkg/admission/reference"
	"kapis.dev/ks-apiserver/pkg/store"
)

// What GroupBindings and workspaces give is found by the name of the user, and is gone with them.
func TestObjectsAreFoundByTheUsersThatTheyName(t *testing.T) {
	x := reference.NewIndex()
	sinks := map[string]store.Sink{}
	for gvr, sink := range x.Sinks() {
		sinks[gvr.Resource] = sink
	}
	set := func(resource, name, raw string) { sinks[resource].Set(&store.Object{Name: name, Raw: []byte(raw)}) }
	is := func(user string, groups, workspaces []string) {
		t.Helper()
		g, w := x.Of(user)
		if !slices.Equal(g, groups) || !slices.Equal(w, workspaces) || x.Names(user) != (len(groups)+len(workspaces) > 0) {
			t.Errorf("%q is in %v and manages %v, want %v and %v", user, g, w, groups, workspaces)
		}
	}
	set("groupbindings", "a", `{"groupRef":{"name":"ops"},"users":["ann","bob","ann"]}`)
	set("groupbindings", "b", `{"groupRef":{"name":"ops"},"users":["ann"],"spec":{"manager":"eve"}}`)
	set("groupbindings", "c", `{"groupRef":{"name":"dev"},"Users":["eve"],"users":["ann"]}`)
	set("workspaces", "a", `{"spec":{"manager":"ann"},"users":["eve"]}`)
	set("workspacetemplates", "a", `{"spec":{"template":{"spec":{"manager":"ann"}}}}`)
	set("workspacetemplates", "z", `{"spec":{}}`)
	is("ann", []string{"dev", "ops"}, []string{"a"})
	is("bob", []string{"ops"}, nil)
	is("eve", nil, nil)
	is("", nil, nil)
	if !x.HasMembers("ops") || x.HasMembers("") || !x.Exists("workspaces", "a") || !x.Exists("workspacetemplates", "z") || x.Exists("workspaces", "z") {
		t.Error("what there is, is not found")
	}
	if x.IsEnding("a") || x.IsEnding("none") {
		t.Error("it is being deleted")
	}
	set("workspaces", "a", `{"metadata":{"deletionTimestamp":"2026-11-21T12:00:00Z"}}`)
	set("workspacetemplates", "z", `{"metadata":{"deletionTimestamp":"2026-11-21T12:00:00Z"}}`)
	if !x.IsEnding("a") || x.IsEnding("z") {
		t.Error("of workspaces, and of them alone, it is said that they are being deleted")
	}
	if x.IsOfHub("a") || x.IsOfHub("") {
		t.Error("it is not the hub's")
	}
	set("workspaces", "a", `{"metadata":{"labels":{"kapis.dev/fleet":"u"}}}`)
	set("workspacetemplates", "z", `{"metadata":{"labels":{"kapis.dev/fleet":"u"}}}`)
	if !x.IsOfHub("a") || x.IsOfHub("z") {
		t.Error("of workspaces, and of them alone, it is said that they are the hub's")
	}
	set("groupbindings", "a", `{"groupRef":{"name":"dev"},"users":["bob"]}`)
	set("workspaces", "a", `{"spec":{"manager":"bob"}}`)
	is("ann", []string{"dev", "ops"}, []string{"a"})
	is("bob", []string{"dev"}, []string{"a"})
	for _, resource := range []string{"groupbindings", "workspaces", "workspacetemplates"} {
		for _, name := range []string{"a", "b", "c", "b"} {
			sinks[resource].Delete("", name)
		}
	}
	is("ann", nil, nil)
	is("bob", nil, nil)
	if x.HasMembers("ops") || x.HasMembers("dev") || x.Exists("workspaces", "a") {
		t.Error("what is gone is still there")
	}
}
