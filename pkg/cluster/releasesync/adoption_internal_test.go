package releasesync

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
)

// ofEarlier makes the release one that an earlier installation has installed, which noted no author.
func ofEarlier(x *setting) {
	x.release.Annotations = nil
	x.release.Status = v2.ApplicationReleaseStatus{State: v2.ReleaseActive, SpecHash: "5d41402a"}
}

// see brings the caches up to date with what was written.
func (f *fleet) see(t *testing.T) {
	t.Helper()
	all := map[string][]string{"/apis/application.kubesphere.io/v2/applicationreleases": {}}
	if now := f.is(t); now != nil {
		all["/apis/application.kubesphere.io/v2/applicationreleases"] = []string{text(t, now)}
	}
	f.Caches = kapistest.NewStoreOf(t, kinds, all)
}

// X39: a member is told of what an earlier installation has installed there, whatever is left of the version, and nobody else; what it says
// becomes the release's state.
func TestX39AMemberIsToldWhatItHasToAdopt(t *testing.T) {
	f := newFleet(t, func(x *setting) {
		ofEarlier(x)
		x.version.Name, x.user.Status.State = "redis-9", iamv1beta1.UserDisabled
	})
	if got := f.once(t); !slices.Equal(got, []string{PathState, PathRelease}) {
		t.Fatalf("it was asked %q", got)
	}
	in := &Release{}
	if err := json.Unmarshal(f.Asked[1].Body, in); err != nil {
		t.Fatal(err)
	}
	if !in.Adopt || in.Author != "" || in.Digest != "" || in.Type != v2.TypeHelm || in.Namespace != "web" || in.Spec.AppVersionID != "redis-1" {
		t.Errorf("%+v", in)
	}
	if got := f.is(t).Status; got.State != v2.ReleaseActive || got.SpecHash != "5d41402a" {
		t.Errorf("told: %+v", got)
	}
	f.report.Releases = map[string]Installed{"cache": {Hash: in.Hash, State: v2.ReleaseActive, Done: true}}
	if got := f.once(t); !slices.Equal(got, []string{PathState}) {
		t.Errorf("it was asked %q", got)
	}
	if got := f.is(t); got.Status.State != v2.ReleaseActive || !release.IsDone(got) {
		t.Errorf("adopted: %+v", got.Status)
	}
}

// X39: what somebody has saved since is sent as it is, and the member is told that there is something to adopt.
func TestX39AReleaseThatWasSavedSinceIsAdoptedToo(t *testing.T) {
	f := newFleet(t, func(x *setting) {
		x.release.Status = v2.ApplicationReleaseStatus{State: v2.ReleaseActive, SpecHash: "5d41402a"}
		x.release.Annotations[v2.AnnotationSaved] = "true"
	})
	if got := f.once(t); !slices.Equal(got, []string{PathState, PathPackage, PathRelease}) {
		t.Fatalf("it was asked %q", got)
	}
	in := &Release{}
	if err := json.Unmarshal(f.Asked[2].Body, in); err != nil || !in.Adopt || in.Author != "ann" || in.Parts != 1 {
		t.Errorf("%+v, %v", in, err)
	}
}

// X39: a release that is deleted before its member has adopted it is told to the member, which removes what is there, and then it goes.
func TestX39AReleaseThatIsDeletedIsAdoptedFirst(t *testing.T) {
	f := newFleet(t, func(x *setting) {
		ofEarlier(x)
		x.release.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	})
	f.Refuses = PathRelease
	if got := f.once(t); !slices.Equal(got, []string{PathState, PathRelease}) {
		t.Fatalf("it was asked %q", got)
	}
	if got := f.is(t); !isHeld(got) || !strings.Contains(got.Status.Message, v2.AnnotationForceDelete) {
		t.Errorf("refused: %+v", got.Status)
	}
	f.Refuses = ""
	if got := f.once(t); !slices.Equal(got, []string{PathState, PathRelease}) || !strings.Contains(string(f.Asked[1].Body), `"adopt":true`) {
		t.Fatalf("it was asked %q", got)
	}
	f.report.Releases = map[string]Installed{"cache": {Hash: "h"}}
	if got := f.once(t); !slices.Equal(got, []string{PathState, PathRemove}) {
		t.Errorf("it was asked %q", got)
	}
	delete(f.report.Releases, "cache")
	f.see(t)
	if got := f.once(t); !slices.Equal(got, []string{PathState}) {
		t.Errorf("it was asked %q", got)
	}
	if got := f.is(t); got != nil && isHeld(got) {
		t.Errorf("it is still held: %+v", got)
	}
}
