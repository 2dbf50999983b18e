package releasesync_test

import (
	"net/http"
	"slices"
	"testing"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/cluster/exchangetest"
	"kapis.dev/ks-apiserver/pkg/cluster/releasesync"
)

// X39: what a member only has to adopt has no author and no package, and is held from the beginning; once it is saved on the hub, it is a
// release as any other.
func TestX39AMemberHasWhatItOnlyAdopts(t *testing.T) {
	m := newMember(t)
	ask := func(change func(*releasesync.Release)) int {
		return m.ask(releasesync.PathRelease, exchangetest.JSON(t, sent(nil, func(r *releasesync.Release) {
			r.Adopt, r.Author, r.Digest, r.Parts = true, "", "", 0
			change(r)
		})), nil)
	}
	for claim, change := range map[string]func(*releasesync.Release){
		"one that installs":   func(r *releasesync.Release) { r.Adopt = false },
		"a user's":            func(r *releasesync.Release) { r.Author = "ann" },
		"one without a type":  func(r *releasesync.Release) { r.Type = "" },
		"half a package":      func(r *releasesync.Release) { r.Parts = 1 },
		"one of no namespace": func(r *releasesync.Release) { r.Namespace = "" },
	} {
		if code := ask(change); code != http.StatusBadRequest || m.get("cache") != nil {
			t.Errorf("%s is answered with %d", claim, code)
		}
	}
	if code := ask(func(*releasesync.Release) {}); code != http.StatusOK {
		t.Fatalf("it is answered with %d", code)
	}
	rel := m.get("cache")
	if a := rel.Annotations; a[v2.AnnotationAdopt] == "" || a[v2.AnnotationUser] != release.Nobody || a[v2.AnnotationFleetPackage] != "" ||
		!slices.Equal(rel.Finalizers, []string{v2.FinalizerRelease}) || !release.IsSent(rel) || len(m.files()) > 0 {
		t.Errorf("%+v, %q", rel.ObjectMeta, m.files())
	}
	m.put([]byte("package"), nil)
	rel = m.get("cache")
	if a := rel.Annotations; a[v2.AnnotationAdopt] != "" || a[v2.AnnotationUser] != "ann" || a[v2.AnnotationFleetPackage] == "" ||
		!slices.Equal(rel.Finalizers, []string{v2.FinalizerRelease}) {
		t.Errorf("saved: %+v", rel.ObjectMeta)
	}
}
