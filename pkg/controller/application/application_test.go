package application_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/controller/application"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
)

// files are the names of files that are kept. Deletions fail as often as broken says.
type files struct {
	names  []string
	broken int
}

func (f *files) Get(context.Context, string) ([]byte, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), "")
}

func (f *files) Labels(context.Context, string) (map[string]string, error) { return nil, nil }

func (f *files) MaxSize() int { return 1 << 20 }

func (f *files) Put(context.Context, string, map[string]string, []byte) error { return nil }

func (f *files) Delete(_ context.Context, name string) error {
	if f.broken > 0 {
		f.broken--
		return errors.New("the files are away")
	}
	f.names = slices.DeleteFunc(f.names, func(n string) bool { return n == name })
	return nil
}

func app(name, repo, category, state string) *v2.Application {
	a := &v2.Application{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("u-" + name), Labels: map[string]string{v2.LabelRepo: repo}}}
	if category != "" {
		a.Labels[v2.LabelCategory] = category
	}
	a.Status.State = state
	return a
}

func version(of, name, repo, state string) *v2.ApplicationVersion {
	return &v2.ApplicationVersion{
		ObjectMeta: metav1.ObjectMeta{Name: of + "-" + name, UID: types.UID("u-" + of + name), Labels: map[string]string{v2.LabelRepo: repo, v2.LabelApp: of}},
		Spec:       v2.ApplicationVersionSpec{VersionName: name}, Status: v2.ApplicationVersionStatus{State: state},
	}
}

func category(name string, total int) *v2.Category {
	return &v2.Category{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v2.CategoryStatus{Total: total}}
}

// world is a cluster with the three controllers.
type world struct {
	*controllertest.Cluster
	files *files
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	c := controllertest.New(t, func(b *fake.ClientBuilder) {
		b.WithStatusSubresource(&v2.Application{}, &v2.ApplicationVersion{}, &v2.Category{})
	}, objects...)
	return &world{c, &files{}}
}

func now() time.Time { return time.Unix(1000, 0) }

// settle reconciles every object until nothing is written any more. What fails is done again, as a queue does.
func (w *world) settle() {
	w.T.Helper()
	for range 20 {
		failed := false
		writes := w.Written(func() {
			for _, one := range []struct {
				r    reconcile.Reconciler
				list client.ObjectList
				more []string
			}{
				{&application.Versions{Client: w.Client, Live: w.Client, Files: w.files, Now: now}, &v2.ApplicationVersionList{}, nil},
				{&application.Applications{Client: w.Client, Live: w.Client, Now: now}, &v2.ApplicationList{}, nil},
				{&application.Categories{Client: w.Client}, &v2.CategoryList{}, []string{v2.CategoryUncategorized}},
			} {
				if err := w.Client.List(w.T.Context(), one.list); err != nil {
					w.T.Fatal(err)
				}
				names := one.more
				switch l := one.list.(type) {
				case *v2.ApplicationVersionList:
					for i := range l.Items {
						names = append(names, l.Items[i].Name)
					}
				case *v2.ApplicationList:
					for i := range l.Items {
						names = append(names, l.Items[i].Name)
					}
				case *v2.CategoryList:
					for i := range l.Items {
						names = append(names, l.Items[i].Name)
					}
				}
				for _, name := range names {
					_, err := one.r.Reconcile(w.T.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
					failed = failed || err != nil
				}
			}
		})
		if writes == 0 && !failed {
			return
		}
	}
	w.T.Fatal("the controllers never settle")
}

func (w *world) state(o client.Object, name string) string {
	w.T.Helper()
	o.SetName(name)
	if !w.Has(o) {
		return "gone"
	}
	switch o := o.(type) {
	case *v2.Application:
		return o.Status.State
	case *v2.ApplicationVersion:
		return o.Status.State
	}
	return ""
}

func (w *world) total(name string) int {
	w.T.Helper()
	c := category(name, 0)
	if !w.Has(c) {
		w.T.Fatalf("there is no category %s", name)
	}
	return c.Status.Total
}

func TestX31AnApplicationFollowsItsVersions(t *testing.T) {
	w := newWorld(t, app("a", v2.RepoUpload, "db", ""), app("of-repo", "museum", "", "active"), app("s", v2.RepoUpload, "db", "suspended"),
		version("a", "1.10.0", v2.RepoUpload, ""), version("a", "1.9.0", v2.RepoUpload, "passed"), version("of-repo", "1.0.0", "museum", ""),
		version("s", "1.0.0", v2.RepoUpload, "active"), category("db", 7))
	w.settle()
	if got := w.state(&v2.Application{}, "a"); got != "draft" {
		t.Errorf("without an active version it is %s", got)
	}
	v := version("a", "1.10.0", "", "")
	if !w.Has(v) || v.Status.State != "draft" || !slices.Equal(v.Finalizers, []string{v2.FinalizerFiles}) {
		t.Errorf("a new version: %+v", v)
	}
	if v := version("of-repo", "1.0.0", "", ""); !w.Has(v) || len(v.Finalizers) > 0 || v.Status.State != "" || w.state(&v2.Application{}, "of-repo") != "active" {
		t.Errorf("what is of a Repo is its controller's: %+v", v)
	}
	// A suspension that was not finished.
	s := version("s", "1.0.0", "", "")
	if !w.Has(s) || s.Status.State != "suspended" || len(s.Status.Audits) != 1 || w.state(&v2.Application{}, "s") != "suspended" {
		t.Errorf("%+v", s.Status)
	}
	a := app("a", "", "", "")
	if !w.Has(a) || a.Annotations[v2.AnnotationLatestVersion] != "1.10.0" {
		t.Errorf("%v", a.Annotations)
	}
	active := version("a", "1.9.0", "", "")
	w.Has(active)
	active.Status.State = "active"
	if err := w.Client.Status().Update(t.Context(), active); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if !w.Has(a) || a.Status.State != "active" || a.Annotations[v2.AnnotationLatestVersion] != "1.9.0" || a.Status.UpdateTime.Unix() != 1000 {
		t.Errorf("%+v", a)
	}
	w.Delete(active)
	w.settle()
	if got := w.state(&v2.Application{}, "a"); got != "draft" {
		t.Errorf("without its active version it is %s", got)
	}
	if w.total("db") != 2 || w.total(v2.CategoryUncategorized) != 0 {
		t.Errorf("%d, %d", w.total("db"), w.total(v2.CategoryUncategorized))
	}
}

func TestX31VersionsAndFilesGoWithTheirApplicationWhereverItWasInterrupted(t *testing.T) {
	for broken := range 6 {
		w := newWorld(t, app("a", v2.RepoUpload, "db", "suspended"), app("b", v2.RepoUpload, "db", "draft"), category("db", 2),
			version("a", "1.0.0", v2.RepoUpload, "suspended"), version("a", "2.0.0", v2.RepoUpload, "draft"), version("b", "1.0.0", v2.RepoUpload, "draft"),
			version("lost", "1.0.0", "museum", "active"))
		w.files.names = []string{"a-1.0.0", "a-2.0.0", "b-1.0.0"}
		w.settle()
		w.Delete(app("a", "", "", ""))
		// Each write fails once, at another moment.
		n := 0
		w.Refuse = func(string, client.Object) error {
			if n++; n == broken {
				return errors.New("kube-apiserver is away")
			}
			return nil
		}
		w.files.broken = broken % 3
		w.settle()
		if w.state(&v2.ApplicationVersion{}, "a-1.0.0") != "gone" || w.state(&v2.ApplicationVersion{}, "a-2.0.0") != "gone" ||
			w.state(&v2.ApplicationVersion{}, "lost-1.0.0") != "gone" || w.state(&v2.ApplicationVersion{}, "b-1.0.0") != "draft" {
			t.Errorf("%d: versions stay, or others went", broken)
		}
		if !slices.Equal(w.files.names, []string{"b-1.0.0"}) || w.total("db") != 1 {
			t.Errorf("%d: the files %q stay, and the total is %d", broken, w.files.names, w.total("db"))
		}
	}
}

func TestX31TheApplicationsOfADeletedCategoryHaveNone(t *testing.T) {
	w := newWorld(t, app("a", v2.RepoUpload, "gone", "draft"), app("b", v2.RepoUpload, "", "draft"))
	w.settle()
	a := app("a", "", "", "")
	if !w.Has(a) || a.Labels[v2.LabelCategory] != v2.CategoryUncategorized || w.total(v2.CategoryUncategorized) != 2 {
		t.Errorf("%v, %d", a.Labels, w.total(v2.CategoryUncategorized))
	}
	w.Delete(category(v2.CategoryUncategorized, 0))
	w.settle()
	if w.total(v2.CategoryUncategorized) != 2 {
		t.Error("it does not come back as it was")
	}
}

func TestX39FinalizersOfExistingInstallationsKeepNothing(t *testing.T) {
	a, c := app("a", v2.RepoUpload, "db", "draft"), category("db", 1)
	a.Finalizers, c.Finalizers = []string{v2.FinalizerFiles}, []string{v2.FinalizerCategory}
	w := newWorld(t, a, c, version("a", "1.0.0", v2.RepoUpload, "draft"))
	w.settle()
	w.Delete(app("a", "", "", ""))
	w.Delete(category("db", 0))
	w.settle()
	if w.Has(app("a", "", "", "")) || w.Has(category("db", 0)) || w.Has(version("a", "1.0.0", "", "")) {
		t.Error("something stays")
	}
}

func TestX36ImagesThatNobodyNamesGo(t *testing.T) {
	image := func(name, namespace string, age time.Duration, labels map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID("u-" + name), Labels: labels,
			CreationTimestamp: metav1.NewTime(now().Add(-age))}}
	}
	is, day := map[string]string{v2.LabelAttachment: "image"}, 25*time.Hour
	a := app("a", v2.RepoUpload, "", "")
	a.Spec.Attachments, a.Spec.Icon = []string{"named"}, "icon"
	const ours = "extension-openpitrix"
	all := []*corev1.ConfigMap{image("named", ours, day, is), image("icon", ours, day, is), image("new", ours, -time.Hour, is),
		image("package", ours, day, nil), image("other", "default", day, is), image("unnamed", ours, day, is)}
	w := newWorld(t, a)
	for _, m := range all {
		w.Create(m)
	}
	at := now()
	c := &application.Attachments{Client: w.Client, Live: w.Client, Now: func() time.Time { return at }}
	if n := w.Written(func() { _ = c.Collect(t.Context()) }); n != 0 {
		t.Errorf("%d writes as soon as it is seen", n)
	}
	at = at.Add(24 * time.Hour)
	if err := c.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if there := w.Has(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace}}); there == (m.Name == "unnamed") {
			t.Errorf("%s: it is there: %t", m.Name, there)
		}
	}
	if n := w.Written(func() { _ = c.Collect(t.Context()) }); n != 0 {
		t.Errorf("%d writes with nothing to do", n)
	}
}

// bucket has attachments in a bucket: their labels by their names, and all are old.
type bucket struct {
	files  map[string]map[string]string
	broken bool
}

func (b *bucket) Names(_ context.Context, before time.Time, wanted func(string) bool) ([]string, error) {
	if b.broken {
		return nil, errors.New("the bucket is away")
	}
	var out []string
	for name := range b.files {
		if wanted(name) && !before.Before(now().Add(-24*time.Hour)) {
			out = append(out, name)
		}
	}
	return out, nil
}

func (b *bucket) Labels(_ context.Context, name string) (map[string]string, error) {
	return b.files[name], nil
}

func (b *bucket) Delete(_ context.Context, name string) error {
	delete(b.files, name)
	return nil
}

func TestX36ImagesInABucketThatNobodyNamesGo(t *testing.T) {
	id := func(c string) string { return strings.Repeat(c, 24) }
	is := map[string]string{v2.LabelAttachment: "image"}
	b := &bucket{files: map[string]map[string]string{id("a"): is, id("b"): is, id("c"): is, id("d"): nil, "shop-1.0.0": is, id("x") + "/y": is}}
	a := app("a", v2.RepoUpload, "", "")
	a.Spec.Attachments, a.Spec.Icon = []string{id("a")}, id("b")
	w := newWorld(t, a)
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "extension-openpitrix", UID: "u", Labels: is,
		CreationTimestamp: metav1.NewTime(now().Add(-25 * time.Hour))}}
	w.Create(old)
	at := now()
	c := &application.Attachments{Client: w.Client, Live: w.Client, Now: func() time.Time { return at }, Bucket: b}
	if err := c.Collect(t.Context()); err != nil || len(b.files) != 6 || !w.Has(old) {
		t.Errorf("as soon as it is seen: %v, %v", err, b.files)
	}
	b.broken, at = true, at.Add(24*time.Hour)
	if err := c.Collect(t.Context()); err == nil || w.Has(old) {
		t.Errorf("a bucket that is away: %v, and the image in a ConfigMap is there: %t", err, w.Has(old))
	}
	b.broken = false
	if err := c.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := slices.Sorted(maps.Keys(b.files))
	if want := []string{id("a"), id("b"), id("d"), "shop-1.0.0", id("x") + "/y"}; len(left) != len(want) || slices.Contains(left, id("c")) {
		t.Errorf("left are %v, want %v", left, want)
	}
}

// X36: an image is deleted a day after the last application has named it, however old it is, and so after a restore whose applications come
// later than what they name.
func TestX36AnImageIsKeptForADayAfterItsLastName(t *testing.T) {
	id := strings.Repeat("c", 24)
	is := map[string]string{v2.LabelAttachment: "image"}
	b := &bucket{files: map[string]map[string]string{id: is}}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "extension-openpitrix", UID: "u", Labels: is,
		CreationTimestamp: metav1.NewTime(now().Add(-48 * time.Hour))}}
	w := newWorld(t)
	w.Create(m)
	at := now()
	c := &application.Attachments{Client: w.Client, Live: w.Client, Now: func() time.Time { return at }, Bucket: b}
	after := func(wait time.Duration, kept bool) {
		t.Helper()
		at = at.Add(wait)
		if err := c.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if inConfigMap, inBucket := w.Has(m), b.files[id] != nil; inConfigMap != kept || inBucket != kept {
			t.Errorf("%s later, the images are there: %t, %t, want %t", wait, inConfigMap, inBucket, kept)
		}
	}
	after(0, true)
	after(23*time.Hour, true)
	a := app("a", v2.RepoUpload, "", "")
	a.Spec.Attachments = []string{"old", id}
	w.Create(a)
	after(2*time.Hour, true)
	w.Delete(a)
	after(time.Hour, true)
	after(23*time.Hour, true)
	after(time.Hour, false)
}
