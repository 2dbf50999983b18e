package releasesync

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/cluster/exchangetest"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
)

const memberUID = "0f8fad5b-d9cb-469f-a165-70867728950e"

var kinds = storetest.Kinds{v2.SchemeGroupVersion: storetest.Cluster("applicationreleases", "applicationversions"),
	iamv1beta1.SchemeGroupVersion: storetest.Cluster("users")}

// fleet is a hub with one release, and a member that answers as it is told.
type fleet struct {
	*round
	exchangetest.Member
	now    time.Time
	client *dynamicfake.FakeDynamicClient
	report Report
	// broken is what reading the package fails with.
	broken error
}

func text(t *testing.T, o any) string { return string(exchangetest.JSON(t, o)) }

// setting is what a fleet has.
type setting struct {
	release *v2.ApplicationRelease
	version *v2.ApplicationVersion
	user    *iamv1beta1.User
	cluster *clusterv1alpha1.Cluster
}

// newFleet returns a fleet in which ann has asked for a release in m1; change may make it something else.
func newFleet(t *testing.T, change func(*setting)) *fleet {
	t.Helper()
	f := &fleet{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	x := &setting{
		release: &v2.ApplicationRelease{ObjectMeta: metav1.ObjectMeta{Name: "cache", UID: "r", ResourceVersion: "1", Finalizers: []string{v2.FinalizerRelease},
			Annotations: map[string]string{v2.AnnotationUser: "ann"}, Labels: map[string]string{v2.LabelApp: "redis", v2.LabelCluster: "m1",
				v2.LabelWorkspace: "shop", v2.LabelNamespace: "web"}}, Spec: v2.ApplicationReleaseSpec{AppID: "redis", AppVersionID: "redis-1"}},
		version: &v2.ApplicationVersion{ObjectMeta: metav1.ObjectMeta{Name: "redis-1", UID: "v", ResourceVersion: "1",
			Labels: map[string]string{v2.LabelApp: "redis", v2.LabelWorkspace: "shop"}}, Status: v2.ApplicationVersionStatus{State: v2.StateActive}},
		user: &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "ann", UID: "a", ResourceVersion: "1"},
			Status: iamv1beta1.UserStatus{State: iamv1beta1.UserActive}},
		cluster: &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1", UID: memberUID, ResourceVersion: "1"},
			Spec: clusterv1alpha1.ClusterSpec{Enable: true}, Status: clusterv1alpha1.ClusterStatus{Conditions: []clusterv1alpha1.ClusterCondition{
				{Type: clusterv1alpha1.ClusterReady, Status: "True"}}}},
	}
	x.release.APIVersion, x.release.Kind = v2.SchemeGroupVersion.String(), "ApplicationRelease"
	if change != nil {
		change(x)
	}
	f.Answer = &f.report
	members := exchangetest.Link(t, &f.Member, x.cluster)
	s := runtime.NewScheme()
	if err := v2.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	f.client = dynamicfake.NewSimpleDynamicClient(s, x.release)
	h := &Hub{UID: "u-hub", Current: members.ByUID, Known: func(...schema.GroupVersionResource) error { return nil },
		Now: func() time.Time { return f.now }, Releases: f.client.Resource(releasesKind),
		Package: func(context.Context, *v2.ApplicationVersion) ([]byte, error) { return []byte("package"), f.broken },
		Caches: kapistest.NewStoreOf(t, kinds, map[string][]string{
			"/apis/application.kubesphere.io/v2/applicationreleases": {text(t, x.release)},
			"/apis/application.kubesphere.io/v2/applicationversions": {text(t, x.version)},
			"/apis/iam.kubesphere.io/v1beta1/users":                  {text(t, x.user)}})}
	f.round = h.newRound(memberUID)
	return f
}

// once runs one round, and returns what the member was asked.
func (f *fleet) once(t *testing.T) []string { return f.Round(t, f.run) }

// is returns the release as kube-apiserver has it, nil for none.
func (f *fleet) is(t *testing.T) *v2.ApplicationRelease {
	t.Helper()
	o, err := f.Releases.Get(t.Context(), "cache", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	out := &v2.ApplicationRelease{}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// X33: a member gets what a release says, who asked for it and the package, once; the state that it reports is the release's.
func TestX33AMemberIsSentWhatAReleaseSays(t *testing.T) {
	f := newFleet(t, nil)
	if got := f.once(t); !slices.Equal(got, []string{PathState, PathPackage, PathRelease}) {
		t.Fatalf("it was asked %q", got)
	}
	in := &Release{}
	if err := json.Unmarshal(f.Asked[2].Body, in); err != nil {
		t.Fatal(err)
	}
	if in.Author != "ann" || in.Cluster != "m1" || in.Workspace != "shop" || in.Namespace != "web" || in.Spec.AppVersionID != "redis-1" ||
		in.Digest != chart.Digest([]byte("package")) || in.Parts != 1 || in.Type != v2.TypeHelm || string(f.Asked[1].Body) != "package" {
		t.Errorf("%+v", in)
	}
	if got := f.is(t).Status; got.State != v2.ReleaseCreating || got.SpecHash != "" {
		t.Errorf("sent: %+v", got)
	}
	f.report.Releases = map[string]Installed{"cache": {Hash: in.Hash, State: v2.ReleaseFailed, Done: true, Message: "403 Forbidden: no right"}}
	if got := f.once(t); !slices.Equal(got, []string{PathState}) {
		t.Errorf("it was asked %q", got)
	}
	got := f.is(t)
	if got.Status.State != v2.ReleaseFailed || got.Status.Message != "403 Forbidden: no right" || got.Status.SpecHash != in.Hash || !release.IsDone(got) {
		t.Errorf("%+v", got.Status)
	}
}

// X33: a settled release costs no write, and a member is asked rarely.
func TestX33ASettledReleaseOfAMemberWritesNothing(t *testing.T) {
	f := newFleet(t, func(x *setting) {
		x.release.Status = v2.ApplicationReleaseStatus{State: v2.ReleaseActive, SpecHash: release.OperationID(x.release)}
	})
	id := release.OperationID(f.is(t))
	f.report.Releases = map[string]Installed{"cache": {Hash: id, State: v2.ReleaseActive, Done: true}}
	before := len(f.client.Actions())
	busy, err := f.run(t.Context())
	if err != nil || busy {
		t.Errorf("busy: %v, %v", busy, err)
	}
	for _, a := range f.client.Actions()[before:] {
		if a.GetVerb() != "get" {
			t.Errorf("%s %s", a.GetVerb(), a.GetSubresource())
		}
	}
}

// X33: nothing is sent in the name of a user who may not, of a version that may not be installed, or before its end would be seen.
func TestX33WhatMayNotBeInstalledIsNotSent(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*setting)
		want   string // what the message begins with; "" where nothing is said
		asks   bool
	}{
		"a disabled author": {func(x *setting) { x.user.Status.State = iamv1beta1.UserDisabled }, "403 ", true},
		"no such author":    {func(x *setting) { x.release.Annotations[v2.AnnotationUser] = "eve" }, "403 ", true},
		"the system":        {func(x *setting) { x.release.Annotations[v2.AnnotationUser] = "system:admin" }, "403 ", true},
		"one of ours":       {func(x *setting) { x.release.Annotations[v2.AnnotationUser] = "kapis:hub" }, "403 ", true},
		"nobody":            {func(x *setting) { x.release.Annotations = nil }, "403 ", true},
		"an author who is being deleted": {func(x *setting) {
			x.user.DeletionTimestamp, x.user.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"a.example/b"}
		}, "403 ", true},
		"a draft":                     {func(x *setting) { x.version.Status.State = v2.StateDraft }, "409 ", true},
		"another workspace's version": {func(x *setting) { x.version.Labels[v2.LabelWorkspace] = "other" }, "422 ", true},
		"no such version":             {func(x *setting) { x.release.Spec.AppVersionID = "redis-9" }, "404 ", true},
		"another application":         {func(x *setting) { x.release.Labels[v2.LabelApp] = "mysql" }, "400 ", true},
		"not held":                    {func(x *setting) { x.release.Finalizers = nil }, "", true},
		"of another cluster":          {func(x *setting) { x.release.Labels[v2.LabelCluster] = "m2" }, "", false},
		"sent by another hub":         {func(x *setting) { x.release.Labels[clusterv1alpha1.LabelFleet] = "u" }, "", false},
		"the member is not ready": {func(x *setting) {
			x.cluster.Status.Conditions[0].Status, x.cluster.Status.Conditions[0].Message = "False", "no link"
		}, "", false},
		"the member is disabled": {func(x *setting) { x.cluster.Spec.Enable = false }, "", false},
		"the member is lite": {func(x *setting) {
			x.cluster.Annotations = map[string]string{clusterv1alpha1.AnnotationLite: "true"}
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, x.change)
			var want []string
			if x.asks {
				want = []string{PathState}
			}
			if got := f.once(t); !slices.Equal(got, want) {
				t.Errorf("it was asked %q", got)
			}
			got := f.is(t).Status
			if x.want == "" && got.State != "" || x.want != "" && (got.State != v2.ReleaseFailed || !strings.HasPrefix(got.Message, x.want)) {
				t.Errorf("%+v", got)
			}
			if release.IsDone(f.is(t)) {
				t.Error("it is not tried again")
			}
		})
	}
}

// X33: what fails is said, and tried again less and less often; a member that lies harms nothing but what is said of its own release.
func TestX33WhatAMemberSaysOfAReleaseIsBounded(t *testing.T) {
	f := newFleet(t, nil)
	f.Refuses = PathRelease
	f.once(t)
	if got := f.is(t).Status; got.State != v2.ReleaseFailed || !strings.HasPrefix(got.Message, "409 Conflict: ") ||
		!strings.Contains(got.Message, "one of its own") {
		t.Errorf("%+v", got)
	}
	if got := f.once(t); !slices.Equal(got, []string{PathState}) {
		t.Errorf("it is asked again at once: %q", got)
	}
	f.now = f.now.Add(15 * time.Second)
	if got := f.once(t); len(got) != 3 {
		t.Errorf("it is not asked again: %q", got)
	}
	f.now = f.now.Add(15 * time.Second)
	if got := f.once(t); len(got) != 1 {
		t.Errorf("it is asked as often as before: %q", got)
	}
	f.Refuses, f.now = "", f.now.Add(5*time.Minute)
	f.broken = errors.New("the repository is away")
	if got := f.once(t); len(got) != 1 || !strings.Contains(f.is(t).Status.Message, "the repository is away") {
		t.Errorf("%q, %+v", got, f.is(t).Status)
	}
	long := strings.Repeat("é", 100_000)
	f.report.Releases = map[string]Installed{"cache": {Hash: release.OperationID(f.is(t)), State: long, Message: long}, "other": {Hash: long}}
	f.once(t)
	if got := f.is(t).Status; got.State != v2.ReleaseCreating || len(got.Message) > maxMessage || got.SpecHash != "" {
		t.Errorf("%.100s, %d bytes", got.State, len(got.Message))
	}
}

// X33: a release that is deleted goes from its member first, and what the hub merely does not know stays there.
func TestX33AReleaseGoesFromItsMemberFirst(t *testing.T) {
	f := newFleet(t, func(x *setting) { x.release.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	f.report.Releases = map[string]Installed{"cache": {Hash: "h"}, "unknown": {Hash: "h"}}
	if got := f.once(t); !slices.Equal(got, []string{PathState, PathRemove}) {
		t.Fatalf("it was asked %q", got)
	}
	in := &Removal{}
	if err := json.Unmarshal(f.Asked[1].Body, in); err != nil || in.Name != "cache" || in.Hub != "u-hub" {
		t.Errorf("%+v, %v", in, err)
	}
	f.report.Releases["cache"] = Installed{Hash: "h", Leaving: true, Message: "it is not removed yet"}
	if got := f.once(t); !slices.Equal(got, []string{PathState}) {
		t.Errorf("it was asked %q", got)
	}
	if got := f.is(t); got.Status.State != v2.ReleaseDeleting || got.Status.Message != "it is not removed yet" || !isHeld(got) {
		t.Errorf("%+v", got)
	}
	delete(f.report.Releases, "cache")
	f.once(t)
	if got := f.is(t); got != nil && isHeld(got) {
		t.Errorf("it is still held: %+v", got)
	}
}

// X33: what reaches a member after its release has ended is removed.
func TestX33AReleaseThatComesLateIsRemoved(t *testing.T) {
	f := newFleet(t, func(x *setting) { x.release.Labels[v2.LabelCluster] = "m2" }) // so that the hub has none in m1
	f.sent["late"] = true
	f.report.Releases = map[string]Installed{"late": {Hash: "h"}, "unknown": {Hash: "h"}}
	if got := f.once(t); !slices.Equal(got, []string{PathState, PathRemove}) || !strings.Contains(string(f.Asked[1].Body), `"late"`) {
		t.Errorf("it was asked %q", got)
	}
	delete(f.report.Releases, "late")
	f.once(t)
	if got := f.once(t); len(got) > 0 {
		t.Errorf("it is asked for nothing: %q", got)
	}
	f = newFleet(t, nil)
	f.once(t)
	f.report.Releases = map[string]Installed{"cache": {Hash: "h"}}
	f.once(t) // it has come, and is sent once more
	f.report.Releases = map[string]Installed{"cache": {Hash: release.OperationID(f.is(t))}}
	f.once(t)
	f.Caches = kapistest.NewStoreOf(t, kinds, nil)
	if got := f.once(t); len(got) > 0 {
		t.Errorf("what did not come late: it was asked %q", got)
	}
}

// F26, X33: a replica of the hub that is behind, or falls behind while the member answers, neither brings a release nor has one removed,
// and says nothing of the member.
func TestX33AReplicaThatIsBehindTellsNothing(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*setting)
		sent   string
		asked  []string // where it is known three times; before, as many of them
	}{
		"Brings": {nil, "", []string{PathState, PathPackage, PathRelease}},
		"Removes": {func(x *setting) { x.release.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, "",
			[]string{PathState, PathRemove}},
		"Late": {func(x *setting) { x.release.Labels[v2.LabelCluster] = "m2" }, "cache", []string{PathState, PathRemove}},
	} {
		t.Run(name, func(t *testing.T) {
			for known := range 3 {
				f, left := newFleet(t, x.change), known
				f.report.Releases = map[string]Installed{"cache": {Hash: "newer"}}
				if x.sent != "" {
					f.sent[x.sent] = true
				}
				f.Known = func(kinds ...schema.GroupVersionResource) error {
					if left--; left < 0 || !slices.Contains(kinds, releasesKind) || !slices.Contains(kinds, clustersKind) {
						return errors.New("the watch ended")
					}
					return nil
				}
				if _, err := f.run(t.Context()); err == nil || !strings.Contains(err.Error(), "the watch ended") {
					t.Errorf("known %d times: nobody is told: %v", known, err)
				}
				var got []string
				for _, a := range f.Asked {
					got = append(got, a.Path)
				}
				if want := x.asked[:min(known, len(x.asked)-1)]; !slices.Equal(got, want) {
					t.Errorf("known %d times: it was asked %q, want %q", known, got, want)
				}
				if s := f.is(t).Status; s.State != "" {
					t.Errorf("known %d times: the release says %+v", known, s)
				}
				left = 3
				if got := f.once(t); !slices.Equal(got, x.asked) {
					t.Errorf("once it is known: it was asked %q", got)
				}
			}
		})
	}
	f := newFleet(t, nil)
	asked := 0
	f.Known = func(kinds ...schema.GroupVersionResource) error {
		if asked++; asked == 3 && (!slices.Contains(kinds, versionsKind) || !slices.Contains(kinds, usersKind)) {
			t.Errorf("a release is sent where %v are known", kinds)
		}
		return nil
	}
	if got := f.once(t); len(got) != 3 || asked != 3 {
		t.Errorf("it was asked %q, and known %d times", got, asked)
	}
}

// X33: a release that was made again under its name, while the member was slow, is not removed for the former one.
func TestX33AReleaseThatWasMadeAgainStays(t *testing.T) {
	again := func(x *v2.ApplicationRelease) string {
		x.UID, x.DeletionTimestamp, x.Labels[v2.LabelCluster] = "again", nil, "m1"
		return text(t, x)
	}
	for name, change := range map[string]func(*setting){
		"Deleted": func(x *setting) { x.release.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"Late":    func(x *setting) { x.release.Labels[v2.LabelCluster] = "m2" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, change)
			f.sent["cache"] = true
			f.report.Releases = map[string]Installed{"cache": {Hash: "newer"}}
			newer := kapistest.NewStoreOf(t, kinds, map[string][]string{
				"/apis/application.kubesphere.io/v2/applicationreleases": {again(f.is(t))}})
			f.Known = func(...schema.GroupVersionResource) error {
				if len(f.Asked) > 0 {
					f.Caches = newer
				}
				return nil
			}
			if got := f.once(t); !slices.Equal(got, []string{PathState}) {
				t.Errorf("it was asked %q", got)
			}
		})
	}
}

// X33: a release that can't be read stays in its member as it is, and keeps nothing from the others: one that is deleted goes.
func TestX33AReleaseThatCanNotBeReadHoldsNothing(t *testing.T) {
	f := newFleet(t, func(x *setting) { x.release.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	broken := `{"metadata":{"name":"a-broken","uid":"b","resourceVersion":"1","labels":{"` + v2.LabelCluster + `":"m1"}},
		"status":{"lastUpdate":"2026-01-01t00:00:00z"}}`
	f.Caches = kapistest.NewStoreOf(t, kinds, map[string][]string{
		"/apis/application.kubesphere.io/v2/applicationreleases": {broken, text(t, f.is(t))}})
	f.sent["a-broken"] = true
	f.report.Releases = map[string]Installed{"a-broken": {Hash: "h"}, "cache": {Hash: "h"}}
	if _, err := f.run(t.Context()); err == nil || !strings.Contains(err.Error(), "a-broken") {
		t.Errorf("nobody is told: %v", err)
	}
	if len(f.Asked) != 2 || f.Asked[1].Path != PathRemove || !strings.Contains(string(f.Asked[1].Body), `"cache"`) {
		t.Errorf("it was asked %q", f.Asked)
	}
}
