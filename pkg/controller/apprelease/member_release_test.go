package apprelease_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/status"
)

// member returns a Cluster, which is ready unless change says otherwise.
func member(change func(*clusterv1alpha1.Cluster)) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1"}, Spec: clusterv1alpha1.ClusterSpec{Enable: true},
		Status: clusterv1alpha1.ClusterStatus{Conditions: []clusterv1alpha1.ClusterCondition{{Type: clusterv1alpha1.ClusterReady, Status: corev1.ConditionTrue}}}}
	if change != nil {
		change(c)
	}
	return c
}

func away(c *clusterv1alpha1.Cluster) {
	c.Status.Conditions[0].Status, c.Status.Conditions[0].Message = corev1.ConditionFalse, "no link for a minute"
}

func lite(c *clusterv1alpha1.Cluster) {
	c.Annotations = map[string]string{clusterv1alpha1.AnnotationLite: "true"}
}

func inMember(r *v2.ApplicationRelease) { r.Labels[v2.LabelCluster] = "m1" }

// X33: a hub installs nothing of what is for a member, and says what it waits for.
func TestX33AReleaseOfAMemberIsNotInstalledHere(t *testing.T) {
	for name, x := range map[string]struct {
		cluster     *clusterv1alpha1.Cluster
		state, says string
	}{
		"ready":            {member(nil), v2.ReleaseCreating, ""},
		"away":             {member(away), v2.ReleaseCreating, "no link for a minute"},
		"disabled":         {member(func(c *clusterv1alpha1.Cluster) { c.Spec.Enable = false }), v2.ReleaseCreating, "disabled"},
		"not joined":       {member(func(c *clusterv1alpha1.Cluster) { c.Status.Conditions = nil }), v2.ReleaseCreating, "not joined"},
		"without programs": {member(lite), v2.ReleaseFailed, "501 Not Implemented: no program of this project runs"},
		"none":             {member(func(c *clusterv1alpha1.Cluster) { c.Name = "other" }), v2.ReleaseClusterDeleted, "no cluster"},
		"the host's object": {member(func(c *clusterv1alpha1.Cluster) {
			c.Labels = map[string]string{clusterv1alpha1.LabelHostCluster: ""}
		}), v2.ReleaseClusterDeleted, "no cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, x.cluster)
			got := w.add(inMember)
			if got.Status.State != x.state || !strings.Contains(got.Status.Message, x.says) || (x.says == "") != (got.Status.Message == "") {
				t.Errorf("%+v", got.Status)
			}
			if len(got.Finalizers) != 1 || len(w.asked) > 0 || len(w.as) > 0 || w.inventory() != nil {
				t.Errorf("%q, %d operations", got.Finalizers, len(w.asked))
			}
			before := w.writes
			if result := w.reconcile(); result != (reconcile.Result{}) || w.writes != before {
				t.Errorf("a settled one: %+v, %d writes", result, w.writes-before)
			}
		})
	}
}

// X33: what was done stays said while the member is away, and what is asked for then is said to wait.
func TestX33AMemberThatIsAwayKeepsItsState(t *testing.T) {
	w := newWorld(t, member(away))
	got := w.add(func(r *v2.ApplicationRelease) {
		inMember(r)
		r.Status = v2.ApplicationReleaseStatus{State: v2.ReleaseActive, SpecHash: release.OperationID(r)}
	})
	if got.Status.State != v2.ReleaseActive || got.Status.Message != "" {
		t.Errorf("%+v", got.Status)
	}
	got = w.change(func(r *v2.ApplicationRelease) { r.Spec.AppVersionID = "redis-2" })
	if got.Status.State != v2.ReleaseUpgrading || !strings.Contains(got.Status.Message, "no link for a minute") {
		t.Errorf("%+v", got.Status)
	}
}

// X33: a removal waits for its member, however long; it ends where the cluster is gone or a person says so.
func TestX33ARemovalInAMemberWaitsForIt(t *testing.T) {
	w := newWorld(t, member(away))
	w.add(inMember)
	w.remove()
	if w.gone() {
		t.Fatal("it is forgotten while the member is away")
	}
	if got := w.get(); got.Status.State != v2.ReleaseDeleting || !strings.Contains(got.Status.Message, v2.AnnotationForceDelete) {
		t.Errorf("%+v", got.Status)
	}
	r := w.get()
	r.Annotations[v2.AnnotationForceDelete] = "true"
	if err := w.client.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if !w.gone() {
		t.Error("it is held against a person's will")
	}
	for name, c := range map[string]*clusterv1alpha1.Cluster{"lite": member(lite), "gone": member(func(c *clusterv1alpha1.Cluster) { c.Name = "other" })} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c)
			w.add(inMember)
			w.remove()
			if !w.gone() {
				t.Error("it waits for a cluster that never removes it")
			}
		})
	}
}

// brought is a package that a hub has brought.
type brought struct{ err error }

func (b brought) Load(context.Context, *release.Sent) ([]byte, error) {
	return []byte("brought"), b.err
}

// sentByHub makes a release one that a hub has sent.
func sentByHub(r *v2.ApplicationRelease) {
	inMember(r)
	r.Labels[clusterv1alpha1.LabelFleet] = "u-hub"
	r.Annotations[v2.AnnotationFleetHash] = "k1-a"
	r.Annotations[v2.AnnotationFleetPackage] = `{"type":"helm","digest":"d","file":"` + release.SentFile("u-hub", "cache") + `","parts":1}`
	r.Spec.AppVersionID = "redis-of-the-hub"
}

func ofFleet(name, hub string, state iamv1beta1.UserState) *iamv1beta1.User {
	u := user(name, state)
	if hub != "" {
		u.Labels = map[string]string{clusterv1alpha1.LabelFleet: hub}
	}
	return u
}

// X33: a member installs what its hub sends with the rights that the author has there, and nothing else.
func TestX33AMemberInstallsWhatItsHubSends(t *testing.T) {
	w := newWorld(t, ofFleet("ann", "u-hub", iamv1beta1.UserPending))
	w.r.Sent, w.r.Packages, w.r.Host = brought{}, nil, ""
	got := w.add(func(r *v2.ApplicationRelease) {
		sentByHub(r)
		r.Annotations[v2.AnnotationUser] = "ann"
	})
	if got.Status.State != v2.ReleaseCreated || len(w.asked) != 1 || string(w.asked[0].Chart) != "brought" || w.asked[0].Cluster.User != "ann" ||
		w.asked[0].Namespace != "web" || !release.IsDone(got) {
		t.Fatalf("%+v, %+v", got.Status, w.asked)
	}
	got = w.change(func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationFleetHash] = "k1-b" })
	if got.Status.State != v2.ReleaseUpgraded || len(w.asked) != 2 {
		t.Errorf("sent anew: %+v, %d operations", got.Status, len(w.asked))
	}
	w.remove()
	if !w.gone() {
		t.Errorf("%+v", w.get())
	}
}

// X33: an author whom the hub brings after the release is waited for, for a while.
func TestX33AnAuthorMayComeToAMemberAfterTheRelease(t *testing.T) {
	w := newWorld(t)
	w.r.Sent = brought{}
	got := w.add(func(r *v2.ApplicationRelease) {
		sentByHub(r)
		r.Annotations[v2.AnnotationUser] = "ann"
	})
	if got.Status.State != v2.ReleaseFailed || !strings.HasPrefix(got.Status.Message, "403 ") || release.IsDone(got) {
		t.Fatalf("%+v", got.Status)
	}
	if err := w.client.Create(t.Context(), ofFleet("ann", "u-hub", "")); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(w.reconcile().RequeueAfter)
	w.reconcile()
	if got := w.get(); got.Status.State != v2.ReleaseCreated || len(w.asked) != 1 || w.asked[0].Cluster.User != "ann" {
		t.Errorf("%+v, %d operations", got.Status, len(w.asked))
	}
}

// X33: nobody's rights are used for what a hub sends but those of a user of that hub, and nobody's for what it has not sent.
func TestX33AHubNamesItsOwnUsersAlone(t *testing.T) {
	for name, change := range map[string]func(*v2.ApplicationRelease){
		"the member's own user": func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationUser] = "bob" },
		"another hub's":         func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationUser] = "eve" },
		"disabled":              func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationUser] = "off" },
		"unknown":               func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationUser] = "far" },
		"one of ours":           func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationUser] = "kapis:hub" },
		"not sent":              func(r *v2.ApplicationRelease) { delete(r.Labels, clusterv1alpha1.LabelFleet) },
		"no package":            func(r *v2.ApplicationRelease) { delete(r.Annotations, v2.AnnotationFleetPackage) },
		"another ConfigMap": func(r *v2.ApplicationRelease) {
			r.Annotations[v2.AnnotationFleetPackage] = `{"type":"helm","digest":"d","file":"kubesphere-config","parts":1}`
		},
		"another workspace's namespace": func(r *v2.ApplicationRelease) { r.Labels[v2.LabelNamespace] = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ofFleet("ann", "u-hub", ""), ofFleet("eve", "u-other", ""), ofFleet("off", "u-hub", iamv1beta1.UserDisabled))
			w.r.Sent = brought{}
			got := w.add(func(r *v2.ApplicationRelease) {
				sentByHub(r)
				r.Annotations[v2.AnnotationUser] = "ann"
				change(r)
			})
			if got.Status.State != v2.ReleaseFailed || len(w.asked) > 0 || len(w.as) > 0 {
				t.Errorf("%+v, %d operations", got.Status, len(w.asked))
			}
		})
	}
	t.Run("a hub takes nothing for sent", func(t *testing.T) {
		w := newWorld(t, ofFleet("ann", "u-hub", iamv1beta1.UserActive))
		got := w.add(func(r *v2.ApplicationRelease) {
			sentByHub(r)
			r.Annotations[v2.AnnotationUser] = "ann"
		})
		if got.Status.State != v2.ReleaseFailed || len(w.asked) > 0 {
			t.Errorf("%+v, %d operations", got.Status, len(w.asked))
		}
	})
	t.Run("the next package is on its way", func(t *testing.T) {
		w := newWorld(t, ofFleet("ann", "u-hub", ""))
		w.r.Sent = brought{status.Errorf(http.StatusConflict, "another one")}
		got := w.add(func(r *v2.ApplicationRelease) {
			sentByHub(r)
			r.Annotations[v2.AnnotationUser] = "ann"
		})
		if got.Status.State != v2.ReleaseFailed || release.IsDone(got) {
			t.Errorf("it is not tried again: %+v", got.Status)
		}
	})
}

// X28: where a namespace of a member was made again, a Helm release that is there is its own only by a record that is known, as from a backup.
func TestX28ANamespaceOfAMemberThatWasMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		found *helm.Result // nil for the release's own record
		done  bool
	}{
		"ABackupBroughtItBack":  {done: true},
		"SomebodyElsesIsThere":  {found: &helm.Result{Release: &helm.Release{Name: "cache", Status: "deployed", RecordDigest: "theirs"}}},
		"SomebodyElsesHasBegun": {found: &helm.Result{Release: &helm.Release{Name: "cache", Status: "failed", RecordDigest: "theirs"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ofFleet("ann", "u-hub", iamv1beta1.UserPending))
			w.r.Sent, w.r.Packages, w.r.Host = brought{}, nil, ""
			w.add(func(r *v2.ApplicationRelease) {
				sentByHub(r)
				r.Annotations[v2.AnnotationUser] = "ann"
			})
			w.makeNamespaceAgain(time.Time{})
			if c.found != nil {
				w.record = c.found
			}
			got := w.change(func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationFleetHash] = "k1-b" })
			if done := got.Status.State == v2.ReleaseCreated; done != c.done || len(w.asked) > 1 != c.done {
				t.Errorf("%+v, %d operations", got.Status, len(w.asked))
			}
			if c.done {
				return
			}
			w.remove()
			if !w.gone() || len(w.asked) > 1 {
				t.Errorf("removed: %+v, %d operations", got.Status, len(w.asked))
			}
		})
	}
}
