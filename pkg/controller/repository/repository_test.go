package repository_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
	"kapis.dev/ks-apiserver/pkg/controller/repository"
	"kapis.dev/ks-apiserver/pkg/egress"
)

// museum is a chart repository, and a cluster that has it.
type museum struct {
	*controllertest.Cluster
	t     *testing.T
	r     *repository.Reconciler
	now   time.Time
	mu    sync.Mutex
	index string
	tag   string
	code  int
	cut   bool
	asked []string
	repo  *v1alpha1.Repository
}

func newMuseum(t *testing.T, objects ...client.Object) *museum {
	t.Helper()
	m := &museum{t: t, now: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC), code: http.StatusOK}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.asked = append(m.asked, r.Header.Get("If-None-Match"))
		if m.tag != "" && r.Header.Get("If-None-Match") == m.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", m.tag)
		if m.cut {
			w.Header().Set("Content-Length", fmt.Sprint(len(m.index)+1))
		}
		w.WriteHeader(m.code)
		_, _ = w.Write([]byte(m.index))
	}))
	t.Cleanup(s.Close)
	m.repo = repo("museum", s.URL)
	m.Cluster = controllertest.New(t, nil, append(objects, m.repo)...)
	m.r = repository.New(m.Client, m.Client, source.New(egress.Options{AllowLoopback: true}), func() time.Time { return m.now })
	return m
}

func repo(name, url string) *v1alpha1.Repository {
	return &v1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-" + "x"}, Spec: v1alpha1.RepositorySpec{URL: url}}
}

// has sets the index: extensions with their versions, such as "shop 1.0.0 1.1.0".
func (m *museum) has(extensions ...string) { m.serves(charttest.Index(extensions...)) }

func (m *museum) serves(index string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index = index
}

// later lets the time of a read pass, and reads.
func (m *museum) later() {
	m.t.Helper()
	m.now = m.now.Add(time.Hour)
	m.Reconcile(m.r, "museum")
}

// versions returns the names of all versions that there are.
func (m *museum) versions() string {
	m.t.Helper()
	all := &v1alpha1.ExtensionVersionList{}
	if err := m.Client.List(m.t.Context(), all); err != nil {
		m.t.Fatal(err)
	}
	var out []string
	for i := range all.Items {
		name := all.Items[i].Name
		if c := meta.FindStatusCondition(all.Items[i].Status.Conditions, v1alpha1.ConditionOrphaned); c != nil {
			name += "(" + c.Reason + ")"
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// is holds which versions there are.
func (m *museum) is(want string) {
	m.t.Helper()
	if got := m.versions(); got != want {
		m.t.Errorf("there are %s, want %s", got, want)
	}
}

// says holds that a condition has a status, and a text.
func (m *museum) says(condition string, status metav1.ConditionStatus, text string) {
	m.t.Helper()
	is := &v1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: "museum"}}
	if !m.Has(is) {
		m.t.Fatal("the repository is gone")
	}
	c := meta.FindStatusCondition(is.Status.Conditions, condition)
	if c == nil || c.Status != status || !strings.Contains(c.Reason+" "+c.Message, text) {
		m.t.Errorf("%s is %+v, want %s with %s", condition, c, status, text)
	}
}

func plan(name, version string) *v1alpha1.InstallPlan {
	return &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: name, Version: version}}}
}

func TestAnIndexBecomesVersions(t *testing.T) { // X16
	m := newMuseum(t)
	m.has("shop 1.0.0 0.9.0 1.10.0 1.2.0", "pay 2.0.0")
	m.later()
	m.is("pay-2.0.0 shop-1.0.0 shop-1.10.0 shop-1.2.0") // the highest three
	m.says(v1alpha1.ConditionSynced, metav1.ConditionTrue, "")
	m.says(v1alpha1.ConditionEntriesValid, metav1.ConditionTrue, "")
	v := &v1alpha1.ExtensionVersion{ObjectMeta: metav1.ObjectMeta{Name: "shop-1.2.0"}}
	if !m.Has(v) || v.Labels[v1alpha1.LabelExtension] != "shop" || v.Labels[v1alpha1.LabelRepository] != "museum" || v.Spec.Repository != "museum" ||
		v.Spec.ChartURL != m.repo.Spec.URL+"/shop-1.2.0.tgz" || len(v.Spec.Digest) != 64 || len(v.OwnerReferences) > 0 {
		t.Errorf("%+v", v)
	}
	m.has("shop 1.2.0 1.10.0 2.0.0")
	m.later()
	m.is("shop-1.10.0 shop-1.2.0 shop-2.0.0")
	m.Patch(m.repo, `{"spec":{"depth":1}}`)
	m.Reconcile(m.r, "museum")
	m.is("shop-2.0.0")
	m.Patch(m.repo, `{"spec":{"depth":0}}`)
	m.Reconcile(m.r, "museum")
	m.is("shop-1.10.0 shop-1.2.0 shop-2.0.0")
}

// X16: what has not changed is not written, by whatever way it is known, and a restart writes nothing either.
func TestASettledRepositoryWritesNothing(t *testing.T) {
	m := newMuseum(t)
	m.tag = `"one"`
	m.has("shop 1.0.0", "pay 2.0.0")
	m.later()
	quiet := func(why string) {
		t.Helper()
		if n := m.Written(m.later); n != 0 {
			t.Errorf("%s: %d writes", why, n)
		}
	}
	quiet("304")
	m.tag = ""
	quiet("the same content")
	m.serves(strings.Replace(m.index, "generated: now", "generated: later", 1))
	quiet("another time")
	m.r = repository.New(m.Client, m.Client, source.New(egress.Options{AllowLoopback: true}), func() time.Time { return m.now })
	quiet("a restart")
	if got := strings.Join(m.asked, ","); got != `,"one",,,` && got != `,"one","one",,` {
		t.Errorf("asked %s", got)
	}
	m.serves("nonsense")
	m.later()
	quiet("a failure that goes on")
}

func TestARepositoryIsReadWhenItIsTime(t *testing.T) { // X16
	m := newMuseum(t)
	m.has("shop 1.0.0")
	reads := func(after time.Duration) int {
		before := len(m.asked)
		m.now = m.now.Add(after)
		if again := m.Reconcile(m.r, "museum").RequeueAfter; again <= 0 {
			t.Error("it is not read again")
		}
		return len(m.asked) - before
	}
	m.Patch(m.repo, `{"spec":{"updateStrategy":{"registryPoll":{"interval":"1s"}}}}`)
	for i, c := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {0, 0}, {14 * time.Minute, 0}, {3 * time.Minute, 1}, {time.Second, 0}} {
		if got := reads(c.after); got != c.want {
			t.Errorf("step %d: %d reads after %v", i, got, c.after)
		}
	}
	m.Patch(m.repo, `{"metadata":{"annotations":{"kapis.dev/sync":"a"}}}`)
	if reads(0) != 1 || reads(0) != 0 {
		t.Error("a nonce is followed once")
	}
	if m.Has(m.repo); m.repo.Status.Sync != "a" {
		t.Errorf("%+v", m.repo.Status)
	}
	m.Patch(m.repo, `{"spec":{"basicAuth":{"username":"ann"}}}`)
	if reads(0) != 1 {
		t.Error("another login is not tried at once")
	}
	m.code = http.StatusInternalServerError // then it is tried again sooner, and later and later
	for i, c := range []struct {
		after time.Duration
		want  int
	}{{20 * time.Minute, 1}, {59 * time.Second, 0}, {time.Second, 1}, {time.Minute, 0}, {time.Minute, 1}, {15 * time.Minute, 1}, {15 * time.Minute, 1}} {
		if got := reads(c.after); got != c.want {
			t.Errorf("failure %d: %d reads after %v", i, got, c.after)
		}
	}
}

// X16: nothing is removed by what is not a whole index.
func TestABrokenIndexChangesNothing(t *testing.T) {
	m := newMuseum(t)
	m.has("shop 1.0.0 2.0.0", "pay 2.0.0")
	m.later()
	const all = "pay-2.0.0 shop-1.0.0 shop-2.0.0"
	good := m.index
	midEntry, _, _ := strings.Cut(good, "version")
	for name, c := range map[string]struct {
		index string
		code  int
		cut   bool
		say   string
	}{
		"Missing":      {good, http.StatusNotFound, false, "NotFound"},
		"Unauthorized": {good, http.StatusUnauthorized, false, "Unauthorized"},
		"Down":         {good, http.StatusBadGateway, false, "Unreachable"},
		"CutOff":       {"apiVersion: v1\nentries:\n  shop:\n", http.StatusOK, true, "only a part"},
		"HTML":         {"<html></html>", http.StatusOK, false, "Invalid"},
		"Empty":        {"", http.StatusOK, false, "Invalid"},
		"MidEntry":     {midEntry, http.StatusOK, false, "cut off"},
		"MidFile":      {"apiVersion: v1\nentries:\n  pay:\n  - {name: pay, version: 2.0.0, urls: [pay-2.0.0.tgz]}\n", http.StatusOK, false, "Incomplete"},
		"Twice":        {strings.Replace(good, "generated", "entries", 1), http.StatusOK, false, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			m.t = t
			m.serves(c.index)
			m.code, m.cut = c.code, c.cut
			m.later()
			m.is(all)
			m.says(v1alpha1.ConditionSynced, metav1.ConditionFalse, c.say)
		})
	}
	m.t, m.code, m.cut = t, http.StatusOK, false
	m.has("shop 2.0.0")
	m.later()
	m.is("shop-2.0.0")
	m.says(v1alpha1.ConditionSynced, metav1.ConditionTrue, "")
}

// X16: a bad entry is named, stops nothing else, and takes nothing away.
func TestABadEntryIsNamed(t *testing.T) {
	m := newMuseum(t)
	m.has("shop 1.0.0", "pay 1.0.0")
	m.later()
	for entry, say := range map[string]string{
		"  shop:\n  - [\n": "shop: it can't be read",
		"  shop:\n  - {name: other, version: 2.0.0, urls: [a]}\n":                                `its name is "other"`,
		"  shop:\n  - {name: shop, version: v2, urls: [a]}\n":                                    "no semantic version",
		"  shop:\n  - {name: shop, version: 2.0.0+b, urls: [a]}\n":                               "no semantic version",
		"  shop:\n  - {name: shop, version: 2.0.0}\n":                                            "it has no urls",
		"  shop:\n  - {name: shop, version: 2.0.0, urls: [oci://a/b]}":                           "oci://",
		"  shop:\n  - {name: shop, version: 2.0.0, urls: ['http://u:p@h/a']}":                    "a user and a password are not taken",
		"  shop:\n  - {name: shop, version: 2.0.0, urls: [a], digest: x}":                        "its digest",
		"  shop:\n  - {name: shop, version: 2.0.0, urls: [" + strings.Repeat("a", 2100) + "]}\n": "more than 2048 letters",
		"  shop:\n  - {name: [], version: 2.0.0, urls: [a]}":                                     "version 1 of 1",
	} {
		m.serves("apiVersion: v1\nentries:\n" + strings.TrimSuffix(entry, "\n") + "\n  Not_Fine:\n  - {name: Not_Fine, version: 1.0.0, urls: [a]}\n" +
			"  pay:\n  - {name: pay, version: 1.0.0, urls: [a]}\n  - {name: pay, version: 1.0.0, urls: [b]}\ngenerated: x\n")
		m.later()
		m.is("pay-1.0.0 shop-1.0.0")
		m.says(v1alpha1.ConditionSynced, metav1.ConditionTrue, "")
		for _, text := range []string{"3 entries are left out", say, "Not_Fine", "pay 1.0.0: it is there twice"} {
			m.says(v1alpha1.ConditionEntriesValid, metav1.ConditionFalse, text)
		}
	}
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "  Bad_%d%s:\n  - {name: x}\n", i, strings.Repeat("y", 500))
	}
	m.serves("apiVersion: v1\nentries:\n" + many.String() + "generated: x\n")
	m.later()
	m.says(v1alpha1.ConditionEntriesValid, metav1.ConditionFalse, "100 entries are left out")
	if m.Has(m.repo); len(m.repo.Status.Conditions[1].Message) > 5000 {
		t.Errorf("a condition has %d bytes", len(m.repo.Status.Conditions[1].Message))
	}
}

// X16: a name belongs to the Repository that first had it, while that is there; nobody else's object is taken.
func TestANameBelongsToTheFirstRepository(t *testing.T) {
	of := func(name, repository string) map[string]string {
		out := map[string]string{v1alpha1.LabelExtension: name}
		if repository != "" {
			out[v1alpha1.LabelRepository] = repository
		}
		return out
	}
	version := func(name, extension, version, repository string) *v1alpha1.ExtensionVersion {
		return &v1alpha1.ExtensionVersion{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: of(extension, repository)},
			Spec: v1alpha1.ExtensionVersionSpec{Version: version}}
	}
	m := newMuseum(t, repo("first", "https://first.example.com"), version("shop-0.1.0", "shop", "0.1.0", "first"),
		&v1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: "hand"}},
		&v1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: "left", Labels: of("left", "gone")}}, version("left-1.0.0", "left", "1.0.0", "gone"),
		version("lie-1.0.0", "something", "1.0.0", ""))
	m.has("shop 1.0.0", "hand 1.0.0", "left 1.0.0 2.0.0", "lie 1.0.0 1.1.0", "own 1.0.0")
	m.later()
	m.is("left-1.0.0 left-2.0.0 lie-1.0.0 lie-1.1.0 own-1.0.0 shop-0.1.0")
	for _, text := range []string{"3 entries", "shop: an extension of this name is of the repository first", "hand: an extension of this name is there without",
		"lie 1.0.0: there is an ExtensionVersion lie-1.0.0, which is not of this repository"} {
		m.says(v1alpha1.ConditionEntriesValid, metav1.ConditionFalse, text)
	}
	left, lie := version("left-1.0.0", "", "", ""), version("lie-1.0.0", "", "", "")
	if !m.Has(left) || left.Labels[v1alpha1.LabelRepository] != "museum" || !m.Has(lie) || lie.Labels[v1alpha1.LabelExtension] != "something" {
		t.Errorf("%v %v", left.Labels, lie.Labels)
	}
	// When the first one is gone, the other one's is taken.
	if err := m.Client.Delete(t.Context(), repo("first", "")); err != nil {
		t.Fatal(err)
	}
	m.Reconcile(m.r, "first")
	m.Patch(m.repo, `{"metadata":{"annotations":{"kapis.dev/sync":"a"}}}`)
	m.Reconcile(m.r, "museum")
	m.is("left-1.0.0 left-2.0.0 lie-1.0.0 lie-1.1.0 own-1.0.0 shop-1.0.0")
}

// X16: what is installed stays, with a condition, until it is no more; also when its Repository is gone.
func TestAVersionInUseStays(t *testing.T) {
	installed := plan("shop", "2.0.0")
	installed.Status.Version = "1.0.0"
	installed.Status.ClusterSchedulingStatuses = map[string]v1alpha1.InstallationStatus{"m": {Version: "0.9.0"}}
	m := newMuseum(t, installed)
	m.has("shop 0.9.0 1.0.0 2.0.0", "pay 1.0.0")
	m.later()
	m.has("shop 0.9.0 3.0.0 3.1.0 3.2.0")
	m.later()
	m.is("shop-0.9.0(BeyondDepth) shop-1.0.0(NotInRepository) shop-2.0.0(NotInRepository) shop-3.0.0 shop-3.1.0 shop-3.2.0")
	if n := m.Written(func() { m.later(); m.Reconcile(m.r, "museum") }); n != 0 {
		t.Errorf("%d writes", n)
	}
	m.has("shop 1.0.0 3.1.0 3.2.0") // it is back
	m.later()
	m.is("shop-0.9.0(NotInRepository) shop-1.0.0 shop-2.0.0(NotInRepository) shop-3.1.0 shop-3.2.0")
	m.Patch(installed, `{"spec":{"extension":{"version":"1.0.0"}}}`)
	m.Reconcile(m.r, "museum") // a plan that changes brings it here, without a read
	m.is("shop-0.9.0(NotInRepository) shop-1.0.0 shop-3.1.0 shop-3.2.0")
	if err := m.Client.Delete(t.Context(), m.repo); err != nil {
		t.Fatal(err)
	}
	m.Reconcile(m.r, "museum")
	m.is("shop-0.9.0(NotInRepository) shop-1.0.0(NotInRepository)")
	if err := m.Client.Delete(t.Context(), installed); err != nil {
		t.Fatal(err)
	}
	m.Reconcile(m.r, "museum")
	m.is("")
}

func TestARepositoryOfAnEarlierInstallationCanBeDeleted(t *testing.T) {
	m := newMuseum(t)
	m.Patch(m.repo, `{"metadata":{"finalizers":["kubesphere.io/repository-protection"]}}`)
	m.has("shop 1.0.0")
	m.later()
	if err := m.Client.Delete(t.Context(), m.repo); err != nil {
		t.Fatal(err)
	}
	m.Reconcile(m.r, "museum")
	m.is("")
	if m.Has(repo("museum", "")) {
		t.Error("it is still there")
	}
}

func TestAChangedChartIsNotedByItsDigest(t *testing.T) {
	m := newMuseum(t)
	index := func(digest, url string) {
		m.serves("apiVersion: v1\nentries:\n  shop:\n  - {name: shop, version: 1.0.0, urls: [" + url + "], digest: '" + digest + "'}\ngenerated: x\n")
		m.later()
	}
	is := func() string {
		v := &v1alpha1.ExtensionVersion{ObjectMeta: metav1.ObjectMeta{Name: "shop-1.0.0"}}
		m.Has(v)
		return v.Spec.Digest
	}
	index("", "a.tgz")
	v := &v1alpha1.ExtensionVersion{ObjectMeta: metav1.ObjectMeta{Name: "shop-1.0.0"}}
	m.Patch(v, `{"spec":{"digest":"read","displayName":{"en":"Shop"}}}`) // as its chart was read
	index("", "./a.tgz")
	if is() != "read" {
		t.Errorf("the digest of the chart that was read is %q", is())
	}
	index(strings.Repeat("a", 64), "a.tgz")
	index("sha256:"+strings.Repeat("B", 64), "a.tgz")
	if m.Has(v); v.Spec.Digest != strings.Repeat("b", 64) || v.Spec.DisplayName["en"] != "Shop" {
		t.Errorf("%+v", v.Spec)
	}
	index("", "b.tgz")
	if is() != "" {
		t.Errorf("another address has the digest %q", is())
	}
}

func TestABadRepositorySaysWhatIsWrong(t *testing.T) { // X17
	long := repo(strings.Repeat("m", 64), "https://charts.example.com")
	m := newMuseum(t, long)
	m.Reconcile(m.r, long.Name)
	if m.Has(long); len(long.Status.Conditions) != 1 || !strings.Contains(long.Status.Conditions[0].Message, "metadata.name") {
		t.Errorf("%+v", long.Status)
	}
	for spec, say := range map[string]string{
		`{"url":"oci://registry.example.com/Charts"}`: "no name of a repository",
		`{"url":"https://ann:canary@example.com"}`:    "spec.basicAuth", `{"url":"ftp://a"}`: "no http, https or oci URL",
		`{"url":"http://169.254.169.254/"}`: "metadata address", `{"url":"https://example.com","caBundle":"x"}`: "spec.caBundle",
	} {
		m.Patch(m.repo, `{"spec":`+spec+`}`)
		m.Reconcile(m.r, "museum")
		m.says(v1alpha1.ConditionSynced, metav1.ConditionFalse, say)
		m.Patch(m.repo, `{"spec":{"caBundle":null}}`) // a patch keeps what it does not name, and the cases come in any order
	}
}
