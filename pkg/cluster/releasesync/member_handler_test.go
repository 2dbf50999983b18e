package releasesync_test

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/cluster/exchangetest"
	"kapis.dev/ks-apiserver/pkg/cluster/releasesync"
	"kapis.dev/ks-apiserver/tools/hostile"
)

const hub = "u-hub"

var (
	releases = v2.SchemeGroupVersion.WithResource("applicationreleases")
	maps     = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// member is a member whose objects are in memory.
type member struct {
	t *testing.T
	*releasesync.Member
	objects *dynamicfake.FakeDynamicClient
}

func newMember(t *testing.T, objects ...runtime.Object) *member {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{releases: "ApplicationReleaseList", maps: "ConfigMapList"}
	c := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)
	return &member{t, &releasesync.Member{Objects: c}, c}
}

// ask sends what a hub sends, and reads the answer.
func (m *member) ask(path string, body []byte, into any) int {
	m.t.Helper()
	return exchangetest.Ask(m.t, m, path, body, into)
}

func (m *member) state() map[string]releasesync.Installed {
	m.t.Helper()
	out := &releasesync.Report{}
	if code := m.ask(releasesync.PathState, exchangetest.JSON(m.t, &releasesync.State{Hub: hub}), out); code != http.StatusOK {
		m.t.Fatalf("the state is answered with %d", code)
	}
	return out.Releases
}

func (m *member) get(name string) *v2.ApplicationRelease {
	m.t.Helper()
	u, err := m.objects.Resource(releases).Get(m.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	out := &v2.ApplicationRelease{}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// files are the names of the ConfigMaps here.
func (m *member) files() (names []string) {
	m.t.Helper()
	list, err := m.objects.Resource(maps).Namespace(release.InventoryNamespace).List(m.t.Context(), metav1.ListOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	slices.Sort(names)
	return names
}

func kubeConfigMap(t *testing.T, u *unstructured.Unstructured) *corev1.ConfigMap {
	t.Helper()
	out := &corev1.ConfigMap{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func packageOf(name string, raw []byte) string {
	return releasesync.PathPackage + "?" + url.Values{"hub": {hub}, "release": {name}, "digest": {chart.Digest(raw)}}.Encode()
}

func sent(raw []byte, change func(*releasesync.Release)) *releasesync.Release {
	out := &releasesync.Release{Hub: hub, Name: "cache", Hash: "k1-a", Author: "ann", Cluster: "m1", Workspace: "shop", Namespace: "web",
		Spec: v2.ApplicationReleaseSpec{AppID: "redis", AppVersionID: "redis-1"}, Type: v2.TypeHelm, Digest: chart.Digest(raw), Parts: exchange.Parts(len(raw))}
	if change != nil {
		change(out)
	}
	return out
}

func (m *member) put(raw []byte, change func(*releasesync.Release)) {
	m.t.Helper()
	if code := m.ask(packageOf("cache", raw), raw, nil); code != http.StatusOK {
		m.t.Fatalf("the package is answered with %d", code)
	}
	if code := m.ask(releasesync.PathRelease, exchangetest.JSON(m.t, sent(raw, change)), nil); code != http.StatusOK {
		m.t.Fatalf("the release is answered with %d", code)
	}
}

// X33: a release is here as the hub sends it, in its author's name, with its package; it goes when the hub says so, and the package with it.
func TestX33AMemberHasTheReleasesThatItsHubSends(t *testing.T) {
	large, small := bytes.Repeat([]byte("0123456789abcdef"), 60<<10), []byte("small")
	m := newMember(t)
	if got := m.state(); len(got) > 0 {
		t.Errorf("a new member has %v", got)
	}
	m.put(large, nil)
	file := release.SentFile(hub, "cache")
	if got := m.files(); !slices.Equal(got, []string{file + "-0", file + "-1"}) {
		t.Errorf("the package is in %q", got)
	}
	rel := m.get("cache")
	if rel.Annotations[v2.AnnotationUser] != "ann" || rel.Labels[v2.LabelCluster] != "m1" || rel.Labels[v2.LabelNamespace] != "web" ||
		rel.Labels["kapis.dev/fleet"] != hub || rel.Spec.AppVersionID != "redis-1" || !release.IsSent(rel) {
		t.Errorf("%+v", rel)
	}
	if got := m.state()["cache"]; got.Hash != "k1-a" || got.Done || got.Leaving {
		t.Errorf("it says %+v", got)
	}
	if s, err := release.SentOf(rel); err != nil || s.Digest != chart.Digest(large) || s.Parts != 2 || s.File != file {
		t.Errorf("%+v, %v", s, err)
	}
	m.put(small, func(r *releasesync.Release) { r.Hash, r.Author, r.Retry = "k1-b", "bob", "once" })
	if got := m.files(); !slices.Equal(got, []string{file + "-0"}) {
		t.Errorf("the next package is in %q", got)
	}
	if rel := m.get("cache"); rel.Annotations[v2.AnnotationUser] != "bob" || rel.Annotations[v2.AnnotationRetry] != "once" {
		t.Errorf("%+v", rel.Annotations)
	}
	before := len(m.objects.Actions())
	m.put(small, func(r *releasesync.Release) { r.Hash, r.Author, r.Retry = "k1-b", "bob", "once" })
	for _, a := range m.objects.Actions()[before:] {
		if a.GetVerb() == "update" && a.GetResource() == releases {
			t.Error("the same release is written again")
		}
	}
	for range 2 { // the second finds nothing
		if code := m.ask(releasesync.PathRemove, exchangetest.JSON(t, &releasesync.Removal{Hub: hub, Name: "cache"}), nil); code != http.StatusOK {
			t.Fatalf("the removal is answered with %d", code)
		}
	}
	if rel, files := m.get("cache"), m.files(); rel != nil || len(files) > 0 {
		t.Errorf("left: %v, %q", rel, files)
	}
}

// X33: a hub takes no release of the member's own, or of another hub.
func TestX33AHubTakesNoReleaseOfOthers(t *testing.T) {
	for name, label := range map[string]string{"of its own": "", "of another hub": "u-other"} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v2.SchemeGroupVersion.String(), "kind": "ApplicationRelease",
				"metadata": map[string]any{"name": "cache"}, "spec": map[string]any{"appID": "theirs"}}}
			if label != "" {
				o.SetLabels(map[string]string{"kapis.dev/fleet": label})
			}
			m := newMember(t, o)
			raw := []byte("package")
			for path, body := range map[string][]byte{packageOf("cache", raw): raw, releasesync.PathRelease: exchangetest.JSON(t, sent(raw, nil)),
				releasesync.PathRemove: exchangetest.JSON(t, &releasesync.Removal{Hub: hub, Name: "cache"})} {
				if code := m.ask(path, body, nil); code != http.StatusConflict {
					t.Errorf("%s is answered with %d", path, code)
				}
			}
			if rel := m.get("cache"); rel == nil || rel.Spec.AppID != "theirs" || len(m.files()) > 0 {
				t.Errorf("%+v, %q", rel, m.files())
			}
			if got := m.state(); len(got) > 0 {
				t.Errorf("it tells the hub of %v", got)
			}
		})
	}
}

// X33: the hub names users of the fleet alone, and what is not well formed writes nothing.
func TestX33WhatIsNotWellFormedWritesNothing(t *testing.T) {
	raw := []byte("package")
	m := newMember(t)
	for name, change := range map[string]func(*releasesync.Release){
		"no hub":            func(r *releasesync.Release) { r.Hub = "" },
		"a hub of words":    func(r *releasesync.Release) { r.Hub = "a b" },
		"no author":         func(r *releasesync.Release) { r.Author = "" },
		"the system":        func(r *releasesync.Release) { r.Author = "system:admin" },
		"a service account": func(r *releasesync.Release) { r.Author = "system:serviceaccount:kube-system:default" },
		"one of ours":       func(r *releasesync.Release) { r.Author = "kapis:hub" },
		"no hash":           func(r *releasesync.Release) { r.Hash = "" },
		"a long hash":       func(r *releasesync.Release) { r.Hash = strings.Repeat("x", 101) },
		"no cluster":        func(r *releasesync.Release) { r.Cluster = "" },
		"no workspace":      func(r *releasesync.Release) { r.Workspace = "" },
		"a path":            func(r *releasesync.Release) { r.Namespace = "../web" },
		"another name":      func(r *releasesync.Release) { r.Name = "a/b" },
		"a long name":       func(r *releasesync.Release) { r.Name = strings.Repeat("x", 54) },
		"no version":        func(r *releasesync.Release) { r.Spec.AppVersionID = "" },
		"no type":           func(r *releasesync.Release) { r.Type = "exe" },
		"no digest":         func(r *releasesync.Release) { r.Digest = strings.Repeat("x", 64) },
		"no parts":          func(r *releasesync.Release) { r.Parts = 0 },
		"many parts":        func(r *releasesync.Release) { r.Parts = 1 << 20 },
	} {
		if code := m.ask(releasesync.PathRelease, exchangetest.JSON(t, sent(raw, change)), nil); code != http.StatusBadRequest {
			t.Errorf("%s is answered with %d", name, code)
		}
	}
	for _, text := range hostile.Words() {
		if isName := len(text) <= 53 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""; isName && text != "" {
			continue
		}
		if code := m.ask(releasesync.PathRemove, exchangetest.JSON(t, &releasesync.Removal{Hub: hub, Name: text}), nil); code != http.StatusBadRequest {
			t.Errorf("%q is answered with %d", text, code)
		}
		if code := m.ask(packageOf(text, raw), raw, nil); code != http.StatusBadRequest {
			t.Errorf("the package of %q is answered with %d", text, code)
		}
	}
	if code := m.ask(packageOf("cache", []byte("another")), raw, nil); code != http.StatusBadRequest {
		t.Errorf("another package is answered with %d", code)
	}
	if code := m.ask("/fleet/releases/other", nil, nil); code != http.StatusNotFound {
		t.Errorf("another path is answered with %d", code)
	}
	for _, a := range m.objects.Actions() {
		if a.GetVerb() != "get" && a.GetVerb() != "list" {
			t.Errorf("%s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// X33: a package is read whole, is the one that the release names, and comes from no other ConfigMap than the hub's.
func TestX33ABroughtPackageIsTheOneThatTheReleaseNames(t *testing.T) {
	raw := bytes.Repeat([]byte("0123456789abcdef"), 60<<10)
	m := newMember(t)
	m.put(raw, nil)
	kube := fake.NewClientset()
	list, err := m.objects.Resource(maps).Namespace(release.InventoryNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		o := kubeConfigMap(t, &list.Items[i])
		if _, err := kube.CoreV1().ConfigMaps(release.InventoryNamespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	is, err := release.SentOf(m.get("cache"))
	if err != nil {
		t.Fatal(err)
	}
	b := releasesync.Brought{Kube: source.Kube{Client: kube}}
	if got, err := b.Load(t.Context(), is); err != nil || !bytes.Equal(got, raw) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for name, change := range map[string]func(*release.Sent){
		"another digest":    func(s *release.Sent) { s.Digest = chart.Digest([]byte("other")) },
		"a part that lacks": func(s *release.Sent) { s.Parts = 3 },
		"a part less":       func(s *release.Sent) { s.Parts = 1 },
		"another ConfigMap": func(s *release.Sent) { s.File = "kubesphere-config" },
		"very many parts":   func(s *release.Sent) { s.Parts = 1 << 30 },
	} {
		s := *is
		change(&s)
		if _, err := b.Load(t.Context(), &s); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}
