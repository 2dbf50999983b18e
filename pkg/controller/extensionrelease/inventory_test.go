package extensionrelease_test

import (
	"fmt"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// X21: records are believed where they are those that were noted, or of an operation on them that has begun; others may have nothing outside of the
// namespace that was not noted.
func TestX21RecordsAreHeldToWhatWasNoted(t *testing.T) {
	n := &extensionrelease.Note{Noted: helm.Noted{RecordDigest: "newest", BaseDigest: "base"}, Namespace: "shop",
		Objects: []extensionrelease.Object{{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "shop"}}}
	own := []permission.Object{{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "shop"}, {Resource: "secrets", Namespace: "shop", Name: "any"}}
	others := []permission.Object{{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "victim"}}
	for name, tc := range map[string]struct {
		records  *helm.Release
		of       []permission.Object
		believed bool
		refused  bool
	}{
		"None":                   {nil, nil, true, false},
		"TheNoted":               {&helm.Release{RecordDigest: "newest", BaseDigest: "base", Status: "failed"}, others, true, false},
		"OneOnTheNoted":          {&helm.Release{RecordDigest: "half", BaseDigest: "newest", BaseDeployed: true, Status: "pending-upgrade"}, others, true, false},
		"ADeployedOneOnTheNoted": {&helm.Release{RecordDigest: "half", BaseDigest: "newest", BaseDeployed: true, Status: "deployed"}, others, false, true},
		"OneOnAnother":           {&helm.Release{RecordDigest: "half", BaseDigest: "forged", BaseDeployed: true, Status: "failed"}, others, false, true},
		"AnotherBase":            {&helm.Release{RecordDigest: "newest", BaseDigest: "forged", Status: "failed", BaseDeployed: true}, own, false, false},
		"AnotherWithItsOwn":      {&helm.Release{RecordDigest: "forged", BaseDigest: "forged", Status: "deployed"}, own, false, false},
		"AnotherWithOthers":      {&helm.Release{RecordDigest: "forged", BaseDigest: "forged", Status: "deployed"}, append(own[:2:2], others...), false, true},
		"AnotherKindOfAName": {&helm.Release{RecordDigest: "forged", BaseDigest: "forged", Status: "deployed"},
			[]permission.Object{{Group: "x", Resource: "clusterroles", Name: "shop"}}, false, true},
		"OfAnotherNamespace": {&helm.Release{RecordDigest: "forged", BaseDigest: "forged", Status: "deployed"},
			[]permission.Object{{Resource: "secrets", Namespace: "other", Name: strings.Repeat("x", 300)}}, false, true},
		"WithoutADigest": {&helm.Release{Status: "deployed"}, others, false, true},
	} {
		believed, err := n.Believes(tc.records, tc.of)
		if believed != tc.believed || (err != nil) != tc.refused {
			t.Errorf("%s: %v, %v", name, believed, err)
		}
	}
	if believed, err := (&extensionrelease.Note{Namespace: "shop"}).Believes(&helm.Release{Status: "deployed"}, nil); believed || err != nil {
		t.Errorf("where nothing was noted, a record without a digest: %v, %v", believed, err)
	}
	for says, n := range map[string]*extensionrelease.Note{"was changed by somebody else": n, "is of none that this plan has installed": {Namespace: "shop"}} {
		if _, err := n.Believes(&helm.Release{Status: "deployed", RecordDigest: "other"}, others); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "clusterroles.rbac.authorization.k8s.io victim") {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// X21: what an operation may make is noted before it does; of what is there, as much as fits.
func TestX21WhatAnOperationMayMakeIsNotedBefore(t *testing.T) {
	n := &extensionrelease.Note{Namespace: "shop"}
	object := func(name string) permission.Object {
		return permission.Object{Resource: "configmaps", Namespace: "shop", Name: name}
	}
	n.Begin([]permission.Object{object("a"), object("a"), object("b")})
	n.Begin([]permission.Object{object("b"), object("c")})
	if got := fmt.Sprint(n.Own()); len(n.Own()) != 3 {
		t.Errorf("%s", got)
	}
	after := &helm.Release{RecordDigest: "two", BaseDigest: "one"}
	n.End(after, true, false, nil)
	if len(n.Objects) != 3 || n.RecordDigest != "two" || n.BaseDigest != "one" {
		t.Errorf("half done: %+v", n)
	}
	n.End(after, false, true, []permission.Object{object("c")})
	if len(n.Objects) != 1 || n.BaseDigest != "" {
		t.Errorf("done on records that are not believed: %+v", n)
	}
	var many []permission.Object
	for i := range 2000 {
		many = append(many, object(fmt.Sprint(i)))
	}
	if n.Begin(many); len(n.Objects) != 1000 {
		t.Errorf("%d objects", len(n.Objects))
	}
}
