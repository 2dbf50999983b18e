package apprepo_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/controller/apprepo"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
	"kapis.dev/ks-apiserver/pkg/egress"
)

// museum is a chart repository, and a cluster that has it.
type museum struct {
	*controllertest.Cluster
	t     *testing.T
	r     *apprepo.Reconciler
	now   time.Time
	mu    sync.Mutex
	index string
	code  int
	asked []string // the passwords of requests
	repo  *applicationv2.Repo
}

func newMuseum(t *testing.T, objects ...client.Object) *museum {
	t.Helper()
	m := &museum{t: t, now: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC), code: http.StatusOK}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		_, password, _ := r.BasicAuth()
		m.asked = append(m.asked, password)
		w.WriteHeader(m.code)
		_, _ = w.Write([]byte(m.index))
	}))
	t.Cleanup(s.Close)
	m.repo = repo("museum", s.URL)
	m.Cluster = controllertest.New(t, func(b *fake.ClientBuilder) {
		b.WithStatusSubresource(&applicationv2.Repo{}, &applicationv2.Application{}, &applicationv2.ApplicationVersion{})
	}, append(objects, m.repo)...)
	m.restart()
	return m
}

// restart begins with a new process.
func (m *museum) restart() {
	m.r = apprepo.New(m.Client, m.Client, source.New(egress.Options{AllowLoopback: true}), m.Recorder, func() time.Time { return m.now })
}

func repo(name, url string) *applicationv2.Repo {
	every := int64(600)
	return &applicationv2.Repo{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-1", Generation: 1,
		Labels: map[string]string{"kubesphere.io/workspace": "w"}}, Spec: applicationv2.RepoSpec{URL: url, SyncPeriod: &every}}
}

// has sets the index: applications with their versions, such as "shop 1.0.0 1.1.0".
func (m *museum) has(apps ...string) { m.serves(charttest.Index(apps...)) }

func (m *museum) serves(index string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index = index
}

// read has the repository be read by hand.
func (m *museum) read() {
	m.t.Helper()
	repo := &applicationv2.Repo{ObjectMeta: metav1.ObjectMeta{Name: "museum"}}
	if !m.Has(repo) {
		m.t.Fatal("the repository is gone")
	}
	repo.Status.State = applicationv2.RepoManualTrigger
	if err := m.Client.Status().Update(m.t.Context(), repo); err != nil {
		m.t.Fatal(err)
	}
	m.Reconcile(m.r, "museum")
}

// later lets a period pass, and reconciles.
func (m *museum) later() {
	m.t.Helper()
	m.now = m.now.Add(11 * time.Minute)
	m.Reconcile(m.r, "museum")
}

// there returns the names of all applications and versions that there are.
func (m *museum) there() string {
	m.t.Helper()
	apps, versions := &applicationv2.ApplicationList{}, &applicationv2.ApplicationVersionList{}
	if err := errors.Join(m.Client.List(m.t.Context(), apps), m.Client.List(m.t.Context(), versions)); err != nil {
		m.t.Fatal(err)
	}
	var out []string
	for i := range apps.Items {
		out = append(out, "app:"+apps.Items[i].Name)
	}
	for i := range versions.Items {
		out = append(out, versions.Items[i].Name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// is holds what there is.
func (m *museum) is(want string) {
	m.t.Helper()
	if got := m.there(); got != want {
		m.t.Errorf("there are %s, want %s", got, want)
	}
}

// says holds the state of the repository, and the last Event: its type, reason and a part of its note; "" for none.
func (m *museum) says(state, event string) {
	m.t.Helper()
	is := &applicationv2.Repo{ObjectMeta: metav1.ObjectMeta{Name: "museum"}}
	if !m.Has(is) || is.Status.State != state {
		m.t.Errorf("the state is %q, want %q", is.Status.State, state)
	}
	last := ""
	for len(m.Events) > 0 {
		last = <-m.Events
	}
	if event == "" && last != "" || !strings.Contains(last, event) {
		m.t.Errorf("the last event is %q, want %q", last, event)
	}
}

func release(name, app, version string) *applicationv2.ApplicationRelease {
	return &applicationv2.ApplicationRelease{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: applicationv2.ApplicationReleaseSpec{AppID: app, AppVersionID: version}}
}

func version(name string) *applicationv2.ApplicationVersion {
	return &applicationv2.ApplicationVersion{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func app(name string) *applicationv2.Application {
	return &applicationv2.Application{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestAnIndexBecomesApplications(t *testing.T) { // X32
	m := newMuseum(t)
	m.serves(`apiVersion: v1
entries:
  Shop:
  - {name: Shop, version: 1.2.0, urls: [a/shop.tgz], digest: "` + strings.Repeat("A", 64) + `", created: "2026-11-21T00:00:00.5Z",
     description: "Sells\n things", home: "https://shop.example.com", icon: "data:image/png;base64,AA==", 
     maintainers: [{name: Ann, email: a@example.com, url: "javascript:x"}, {name: Bob}]}
  - {name: Shop, version: 1.10.0-rc.1, urls: ["http://elsewhere.example.com/shop.tgz"], home: "javascript:alert(1)", icon: 7, maintainers: x}
  an-application-with-a-long-name:
  - {name: an-application-with-a-long-name, version: v2.0.0+build, urls: [b.tgz]}
generated: x
`)
	m.Reconcile(m.r, "museum")
	m.is("app:museum-31d116cfe5 app:museum-shop museum-31d116cfe5-bb7f74e41689 museum-shop-1.10.0-rc.1 museum-shop-1.2.0")
	m.says(applicationv2.RepoSuccessful, "Normal Synced 2 applications with 3 versions")
	a, v := app("museum-shop"), version("museum-shop-1.2.0")
	if !m.Has(a) || !m.Has(v) {
		t.Fatal("they are not there")
	}
	for key, want := range map[string]string{"application.kubesphere.io/repo-name": "museum", "application.kubesphere.io/app-type": "helm",
		"kubesphere.io/workspace": "w", "application.kubesphere.io/app-category-name": "kubesphere-app-uncategorized"} {
		if a.Labels[key] != want || key != "application.kubesphere.io/app-category-name" && v.Labels[key] != want {
			t.Errorf("%s: %q, %q", key, a.Labels[key], v.Labels[key])
		}
	}
	if v.Labels["application.kubesphere.io/app-id"] != "museum-shop" || a.Annotations["application.kubesphere.io/app-originalName"] != "Shop" ||
		a.Annotations["application.kubesphere.io/latest-app-version"] != "1.10.0-rc.1" || a.Status.State != "active" || v.Status.State != "active" ||
		a.Status.UpdateTime == nil || len(a.OwnerReferences)+len(v.OwnerReferences)+len(a.Finalizers) > 0 {
		t.Errorf("%+v\n%+v", a, v)
	}
	s := v.Spec
	if s.VersionName != "1.2.0" || s.AppType != "helm" || s.AppHome != "https://shop.example.com" || s.Digest != strings.Repeat("a", 64) ||
		s.PullURL != m.repo.Spec.URL+"/a/shop.tgz" || s.Created.UTC().Format(time.RFC3339) != "2026-11-21T00:00:00Z" || len(s.Maintainer) != 2 ||
		s.Maintainer[0] != (applicationv2.Maintainer{Name: "Ann", Email: "a@example.com"}) {
		t.Errorf("%+v", s)
	}
	if n := v.Spec.Icon; n != "" {
		t.Errorf("each version has the image %s", n)
	}
	// What would run in a browser, or is of another type, is left out, and nothing else is.
	if m.Has(v) && a.Spec.AppHome+a.Spec.Icon != "" {
		t.Errorf("%+v", a.Spec)
	}
	if len(m.asked) != 1 {
		t.Errorf("%d requests: packages are not read", len(m.asked))
	}
}

func TestX32ASettledRepoWritesNothing(t *testing.T) {
	m := newMuseum(t)
	m.has("shop 1.0.0", "pay 2.0.0")
	m.Reconcile(m.r, "museum")
	quiet := func(why string, reads int, do func()) {
		t.Helper()
		before := len(m.asked)
		if n := m.Written(do); n != 0 || len(m.asked)-before != reads {
			t.Errorf("%s: %d writes, %d reads", why, n, len(m.asked)-before)
		}
	}
	again := func() { m.Reconcile(m.r, "museum") }
	quiet("its own writes", 0, again)
	quiet("the same content", 1, m.later)
	m.serves(strings.Replace(m.index, "generated: now", "generated: later", 1))
	quiet("another time", 1, m.later)
	m.restart()
	quiet("a restart", 1, m.later)
	quiet("after it", 0, again)
	m.says(applicationv2.RepoSuccessful, "Synced") // of the first read
	m.serves("nonsense")
	m.later()
	m.says(applicationv2.RepoFailed, "Warning Invalid")
	quiet("a failure that goes on", 1, m.later)
	m.says(applicationv2.RepoFailed, "")
	m.code = http.StatusNotFound
	m.later()
	m.says(applicationv2.RepoFailed, "Warning NotFound")
	m.Patch(m.repo, `{"spec":{"syncPeriod":0}}`)
	again()
	m.restart()
	m.now = m.now.Add(1000 * time.Hour)
	quiet("a restart without a period", 0, again)
}

func TestX32ARepoIsReadWhenItIsTime(t *testing.T) {
	m := newMuseum(t)
	m.has("shop 1.0.0")
	reads := func(after time.Duration) int {
		before := len(m.asked)
		m.now = m.now.Add(after)
		m.Reconcile(m.r, "museum")
		return len(m.asked) - before
	}
	m.Patch(m.repo, `{"spec":{"syncPeriod":1}}`) // at least 180 s
	for i, c := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {0, 0}, {179 * time.Second, 0}, {30 * time.Second, 1}, {time.Second, 0}} {
		if got := reads(c.after); got != c.want {
			t.Errorf("step %d: %d reads after %v", i, got, c.after)
		}
	}
	before := len(m.asked)
	if m.read(); len(m.asked) != before+1 {
		t.Error("it is not read by hand")
	}
	m.says(applicationv2.RepoSuccessful, "Synced")
	m.Patch(m.repo, `{"spec":{"credential":{"password":"p"}}}`)
	if reads(0) != 1 {
		t.Error("another credential is not tried at once")
	}
	m.code = http.StatusInternalServerError
	m.Patch(m.repo, `{"spec":{"syncPeriod":86400}}`)
	for i, c := range []struct { // sooner, and later and later
		after time.Duration
		want  int
	}{{0, 1}, {59 * time.Second, 0}, {time.Second, 1}, {time.Minute, 0}, {time.Minute, 1}} {
		if got := reads(c.after); got != c.want {
			t.Errorf("failure %d: %d reads after %v", i, got, c.after)
		}
	}
	for _, never := range []string{"0", "-5", "null"} {
		m.Patch(m.repo, `{"spec":{"syncPeriod":`+never+`,"description":"`+never+`"}}`)
		if reads(0) != 1 || reads(1000*time.Hour) != 0 {
			t.Errorf("%s is a period", never)
		}
	}
	if before = len(m.asked); m.Reconcile(m.r, "museum").RequeueAfter != 0 {
		t.Error("it waits for the next read, and there is none")
	}
	m.code = http.StatusOK
	if m.read(); len(m.asked) != before+1 {
		t.Error("one without a period is not read by hand")
	}
}

// The state says what happens while it does, and a process that dies then leaves nothing to wait for.
func TestX32TheStateIsSyncingWhileARepoIsRead(t *testing.T) {
	m := newMuseum(t)
	m.has("shop 1.0.0")
	m.Refuse = func(verb string, o client.Object) error {
		if _, is := o.(*applicationv2.Application); is && verb == "create" {
			m.says(applicationv2.RepoSyncing, "")
			return errors.New("the process dies")
		}
		return nil
	}
	if _, err := m.r.Reconcile(t.Context(), requestOf("museum")); err == nil {
		t.Fatal("it went on")
	}
	m.Refuse = nil
	m.restart()
	m.Reconcile(m.r, "museum")
	m.says(applicationv2.RepoSuccessful, "Synced")
	m.is("app:museum-shop museum-shop-1.0.0")
	// Who asks for a read while there is one gets another one.
	first := true
	m.has("shop 1.0.0 2.0.0")
	m.Refuse = func(_ string, o client.Object) error {
		if _, is := o.(*applicationv2.ApplicationVersion); is && first {
			first = false
			m.Patch(m.repo, `{"metadata":{"annotations":{"a":"b"}}}`) // it is another one than was seen
		}
		return nil
	}
	m.read()
	m.Refuse = nil
	m.says(applicationv2.RepoSyncing, "")
	m.Reconcile(m.r, "museum")
	m.says(applicationv2.RepoSuccessful, "Synced")
}

// X32: nothing is removed by what is not a whole index, and each failure is told by a state and an Event.
func TestABrokenIndexChangesNothing(t *testing.T) {
	m := newMuseum(t)
	m.has("shop 1.0.0 2.0.0", "pay 2.0.0")
	m.Reconcile(m.r, "museum")
	const all = "app:museum-pay app:museum-shop museum-pay-2.0.0 museum-shop-1.0.0 museum-shop-2.0.0"
	good := m.index
	midEntry, _, _ := strings.Cut(good, "version")
	var many strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&many, "  a%d:\n  - {name: a%d, version: 1.0.0, urls: [a]}\n", i, i)
	}
	for name, c := range map[string]struct {
		index string
		code  int
		state string
		say   string
	}{
		"Missing":      {good, http.StatusNotFound, "failed", "Warning NotFound"},
		"Unauthorized": {good, http.StatusUnauthorized, "failed", "check spec.credential"},
		"Down":         {good, http.StatusBadGateway, "failed", "Warning Unreachable"},
		"HTML":         {"<html></html>", http.StatusOK, "failed", "Warning Invalid"},
		"Empty":        {"", http.StatusOK, "failed", "Warning Invalid"},
		"MidEntry":     {midEntry, http.StatusOK, "failed", "cut off"},
		"TooMany":      {"apiVersion: v1\nentries:\n" + many.String() + "generated: x\n", http.StatusOK, "failed", "Warning TooLarge"},
		"MidFile": {"apiVersion: v1\nentries:\n  pay:\n  - {name: pay, version: 2.0.0, urls: [pay-2.0.0.tgz]}\n", http.StatusOK,
			"successful", "nothing was removed"},
	} {
		t.Run(name, func(t *testing.T) {
			m.t = t
			m.serves(c.index)
			m.code = c.code
			m.read()
			m.is(all)
			m.says(c.state, c.say)
		})
	}
	m.t, m.code = t, http.StatusOK
	m.has("shop 2.0.0")
	m.later()
	m.is("app:museum-shop museum-shop-2.0.0")
	m.says(applicationv2.RepoSuccessful, "Normal Synced")
}

// X32: a bad entry is named, stops nothing else, and takes nothing away.
func TestABadEntryIsNamed(t *testing.T) {
	m := newMuseum(t)
	m.has("shop 1.0.0", "pay 1.0.0")
	m.Reconcile(m.r, "museum")
	for entry, say := range map[string]string{
		"  shop:\n  - [\n": "shop: it can't be read",
		"  shop:\n  - {name: other, version: 2.0.0, urls: [a]}\n":                                                    `its name is "other"`,
		"  shop:\n  - {name: shop, version: latest, urls: [a]}\n":                                                    "no semantic version",
		"  shop:\n  - {name: shop, version: 2.0.0-" + strings.Repeat("a", 60) + ", urls: [a]}\n":                     "no semantic version",
		"  shop:\n  - {name: shop, version: 2.0.0-" + strings.Repeat("a", 55) + ", urls: [a]}\n":                     "more than 63 letters",
		"  shop:\n  - {name: shop, version: 2.0.0}\n":                                                                "it has no urls",
		"  shop:\n  - {name: shop, version: 2.0.0, urls: [oci://a/b]}":                                               "oci://",
		"  shop:\n  - {name: shop, version: 2.0.0, urls: ['file:///etc/passwd']}":                                    "no http, https or oci",
		"  shop:\n  - {name: shop, version: 2.0.0, urls: ['http://u:p@h/a']}":                                        "a user and a password are not taken",
		"  shop:\n  - {name: shop, version: 2.0.0, urls: [a], digest: x}":                                            "its digest",
		"  shop:\n  - {name: shop, version: [], urls: [a]}":                                                          "version 1 of 1",
		"  Shop:\n  - {name: Shop, version: 1.0.0, urls: [a]}\n  shop:\n  - {name: shop, version: 1.0.0, urls: [a]}": "an application of this name is there for Shop",
	} {
		m.serves("apiVersion: v1\nentries:\n" + strings.TrimSuffix(entry, "\n") + "\n  ../evil:\n  - {name: ../evil, version: 1.0.0, urls: [a]}\n" +
			"  pay:\n  - {name: pay, version: 1.0.0, urls: [a]}\n  - {name: pay, version: 1.0.0, urls: [b]}\ngenerated: x\n")
		m.read()
		m.is("app:museum-pay app:museum-shop museum-pay-1.0.0 museum-shop-1.0.0")
		for len(m.Events) > 1 {
			<-m.Events
		}
		event := <-m.Events
		for _, text := range []string{"Warning EntriesLeftOut", "entries are left out", say, "../evil", "pay \"1.0.0\": it is there twice"} {
			if !strings.Contains(event, text) {
				t.Errorf("%s: %q has no %q", entry, event, text)
			}
		}
	}
}

// X32: each application has its newest versions, and those that releases use.
func TestVersionsInUseStay(t *testing.T) {
	installed := release("r", "museum-shop", "museum-shop-0.1.0")
	m := newMuseum(t, installed)
	all := []string{"shop"}
	for i := range 25 {
		all = append(all, fmt.Sprintf("0.%d.0", i+1))
	}
	m.has("shop 0.1.0")
	m.Reconcile(m.r, "museum")
	m.has(strings.Join(all, " "))
	m.later()
	versions := strings.Fields(m.there())
	if len(versions) != 1+20+1 || !slices.Contains(versions, "museum-shop-0.1.0") || slices.Contains(versions, "museum-shop-0.5.0") ||
		!slices.Contains(versions, "museum-shop-0.6.0") {
		t.Errorf("%v", versions)
	}
	m.has("pay 1.0.0")
	m.later()
	m.is("app:museum-pay app:museum-shop museum-pay-1.0.0 museum-shop-0.1.0")
	if n := m.Written(func() { m.later(); m.Reconcile(m.r, "museum") }); n != 0 {
		t.Errorf("%d writes", n)
	}
	m.Create(release("by-label", "", ""))
	m.Delete(installed)
	reads := len(m.asked)
	m.Reconcile(m.r, "museum") // a release that goes brings it here, without a read
	m.is("app:museum-pay museum-pay-1.0.0")
	if len(m.asked) != reads {
		t.Error("it was read for that")
	}
	labelled := release("labelled", "", "")
	labelled.Labels = map[string]string{"application.kubesphere.io/appversion-id": "museum-pay-1.0.0"}
	m.Create(labelled)
	m.Delete(m.repo)
	m.Reconcile(m.r, "museum")
	m.is("app:museum-pay museum-pay-1.0.0")
	m.Delete(labelled)
	m.Reconcile(m.r, "museum")
	m.is("")
}

// X28, X32: a name that is made of two texts is no right to what has that name, and what people have uploaded is of no Repo.
func TestARepoTakesNothingThatIsNotItsOwn(t *testing.T) {
	of := func(o client.Object, repo, name, app string) client.Object {
		o.SetLabels(map[string]string{"application.kubesphere.io/repo-name": repo, "application.kubesphere.io/app-id": app, "kubesphere.io/workspace": "other"})
		o.SetAnnotations(map[string]string{"application.kubesphere.io/app-originalName": name})
		return o
	}
	m := newMuseum(t, of(app("museum-shop"), "mus", "eum-shop", ""), of(version("museum-shop-1.0.0"), "mus", "", "museum-shop"),
		of(app("museum-pay"), "upload", "pay", ""), of(version("museum-cart-1.0.0"), "museum", "", "museum-other"),
		of(app("museum-book"), "museum", "Book", ""),
		of(app("museum-lamp"), "museum", "lamp", "")) // of a Repo of this name that another workspace had
	m.has("shop 1.0.0 2.0.0", "pay 1.0.0", "cart 1.0.0", "book 1.0.0", "lamp 1.0.0")
	m.Reconcile(m.r, "museum")
	m.says(applicationv2.RepoSuccessful, "shop: there is an Application museum-shop, which is not of this repository")
	const foreign = "app:museum-book app:museum-cart app:museum-lamp app:museum-pay app:museum-shop museum-cart-1.0.0 museum-shop-1.0.0"
	m.is(foreign)
	for _, o := range []client.Object{app("museum-shop"), app("museum-pay"), version("museum-shop-1.0.0"), version("museum-cart-1.0.0"), app("museum-book"),
		app("museum-lamp")} {
		if !m.Has(o) || o.GetLabels()["kubesphere.io/workspace"] != "other" {
			t.Errorf("%s was taken: %v", o.GetName(), o.GetLabels())
		}
	}
	for _, name := range []string{"upload", "", "none"} {
		m.Reconcile(m.r, name)
	}
	m.is(foreign)
	upload := repo("upload", m.repo.Spec.URL)
	m.Create(upload)
	m.Reconcile(m.r, "upload")
	m.Delete(upload)
	m.Reconcile(m.r, "upload")
	m.is(foreign)
	long := repo(strings.Repeat("a", 64), m.repo.Spec.URL)
	m.Create(long)
	m.Reconcile(m.r, long.Name)
	if m.Has(long); long.Status.State != applicationv2.RepoFailed {
		t.Errorf("%+v", long.Status)
	}
	m.is(foreign)
}

func TestWhatPeopleHaveChangedStays(t *testing.T) { // X31, X32
	m := newMuseum(t)
	m.has("shop 1.0.0")
	m.Reconcile(m.r, "museum")
	a, v := app("museum-shop"), version("museum-shop-1.0.0")
	m.Patch(a, `{"metadata":{"labels":{"application.kubesphere.io/app-category-name":"shops"}}}`)
	for _, o := range []client.Object{a, v} {
		if err := m.Client.Status().Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"state":"suspended"}}`))); err != nil {
			t.Fatal(err)
		}
	}
	m.has("shop 1.0.0 1.1.0")
	m.later()
	if m.Has(a); a.Labels["application.kubesphere.io/app-category-name"] != "shops" || a.Status.State != "suspended" ||
		a.Annotations["application.kubesphere.io/latest-app-version"] != "1.1.0" {
		t.Errorf("%+v", a)
	}
	if m.Has(v); v.Status.State != "suspended" {
		t.Errorf("%+v", v.Status)
	}
	m.Patch(m.repo, `{"metadata":{"labels":{"kubesphere.io/workspace":"x"}},"spec":{"description":"moved"}}`)
	m.Reconcile(m.r, "museum")
	if m.Has(v); v.Labels["kubesphere.io/workspace"] != "x" {
		t.Errorf("%v", v.Labels)
	}
}

func TestTheObjectsOfAnEarlierInstallationAreTakenOver(t *testing.T) { // X32
	a := app("museum-shop")
	a.Labels = map[string]string{"application.kubesphere.io/repo-name": "museum"}
	a.Annotations = map[string]string{"application.kubesphere.io/app-originalName": "shop"}
	a.OwnerReferences = []metav1.OwnerReference{{APIVersion: "application.kubesphere.io/v2", Kind: "Repo", Name: "museum", UID: "u-1"},
		{APIVersion: "v1", Kind: "Other", Name: "o", UID: "u-2"}}
	m := newMuseum(t, a)
	m.Patch(m.repo, `{"metadata":{"finalizers":["helmrepo.application.kubesphere.io","other.example.com/x"]}}`)
	m.has("shop 1.0.0")
	m.Reconcile(m.r, "museum")
	if m.Has(a); len(a.OwnerReferences) != 1 || a.OwnerReferences[0].Kind != "Other" {
		t.Errorf("%+v", a.OwnerReferences)
	}
	m.Delete(m.repo)
	m.Reconcile(m.r, "museum")
	m.is("")
	is := repo("museum", "")
	if !m.Has(is) || len(is.Finalizers) != 1 || is.Finalizers[0] != "other.example.com/x" {
		t.Errorf("%v", is.Finalizers)
	}
}

// X32, X40: the password in a URL moves to where nobody sees it, and is sent to the repository.
func TestAPasswordInAURLIsHidden(t *testing.T) {
	m := newMuseum(t)
	m.Patch(m.repo, `{"metadata":{"annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":"canary"}},"spec":{"url":"`+
		strings.Replace(m.repo.Spec.URL, "://", "://ann:canary%40@", 1)+`"}}`)
	m.has("shop 1.0.0")
	m.Reconcile(m.r, "museum")
	is := repo("museum", "")
	if m.Has(is); strings.Contains(is.Spec.URL, "@") || is.Spec.Credential.Username != "ann" || is.Spec.Credential.Password != "canary@" ||
		len(is.Annotations) != 1 {
		t.Errorf("%v %+v", is.Annotations, is.Spec)
	}
	if strings.Join(m.asked, ",") != "canary@" {
		t.Errorf("asked with %q", m.asked)
	}
	if n := m.Written(func() { m.Reconcile(m.r, "museum") }); n != 0 || len(m.asked) != 1 {
		t.Errorf("%d writes and %d reads more", n, len(m.asked)-1)
	}
	v := version("museum-shop-1.0.0")
	if m.Has(v); strings.Contains(v.Spec.PullURL, "canary") {
		t.Errorf("%s", v.Spec.PullURL)
	}
	// Where a credential would have to go to another address for that, it fails, and says what to do.
	m.Refuse = func(verb string, o client.Object) error {
		if _, is := o.(*applicationv2.Repo); is && verb == "patch" {
			return apierrors.NewForbidden(schema.GroupResource{}, "museum", errors.New("spec.url changes"))
		}
		return nil
	}
	at := strings.Replace(m.repo.Spec.URL, "ann:canary%40@", "bob:canary@", 1)
	if err := m.Client.Patch(t.Context(), m.repo, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"url":"`+at+`"}}`))); err == nil {
		t.Fatal("the test refuses what it needs")
	}
	refuse := m.Refuse
	m.Refuse = nil
	m.Patch(m.repo, `{"spec":{"url":"`+at+`"}}`)
	m.Refuse = refuse
	m.Reconcile(m.r, "museum")
	m.says(applicationv2.RepoFailed, "Warning Invalid spec.url: a user and a password are not taken here, but in spec.credential")
	for len(m.Events) > 0 {
		if e := <-m.Events; strings.Contains(e, "canary") {
			t.Error(e)
		}
	}
}

func requestOf(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}
