package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
	"kapis.dev/ks-apiserver/pkg/kapis/application/app"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scopetest"
)

// configMaps are ConfigMaps whose creation, update and deletion are bound to UIDs and versions as kube-apiserver binds them.
type configMaps struct {
	mu      sync.Mutex
	all     map[string]*corev1.ConfigMap
	version int
	failing string // a verb that fails
}

func (c *configMaps) react(a clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	gr := corev1.Resource("configmaps")
	if a.GetVerb() == c.failing {
		return true, nil, apierrors.NewInternalError(errors.New("etcd is away"))
	}
	stamp := func(m *corev1.ConfigMap) *corev1.ConfigMap {
		m = m.DeepCopy()
		m.ResourceVersion = fmt.Sprint(c.version)
		c.all[m.Name] = m
		return m.DeepCopy()
	}
	switch a := a.(type) {
	case clienttesting.UpdateAction: // before CreateAction, which has the same methods
		m := a.GetObject().(*corev1.ConfigMap)
		now := c.all[m.Name]
		if a.GetVerb() == "create" {
			if now != nil {
				return true, nil, apierrors.NewAlreadyExists(gr, m.Name)
			}
			m = m.DeepCopy()
			m.UID, m.CreationTimestamp = types.UID(fmt.Sprint("m-", c.version)), metav1.Now()
			return true, stamp(m), nil
		}
		if now == nil {
			return true, nil, apierrors.NewNotFound(gr, m.Name)
		}
		if m.ResourceVersion != "" && (m.ResourceVersion != now.ResourceVersion || m.UID != now.UID) {
			return true, nil, apierrors.NewConflict(gr, m.Name, errors.New("another one"))
		}
		m = m.DeepCopy()
		m.UID, m.CreationTimestamp = now.UID, now.CreationTimestamp
		return true, stamp(m), nil
	case clienttesting.DeleteActionImpl:
		now := c.all[a.Name]
		if now == nil {
			return true, nil, apierrors.NewNotFound(gr, a.Name)
		}
		if p := a.DeleteOptions.Preconditions; p != nil && (*p.UID != now.UID || *p.ResourceVersion != now.ResourceVersion) {
			return true, nil, apierrors.NewConflict(gr, a.Name, errors.New("another one"))
		}
		delete(c.all, a.Name)
		return true, nil, nil
	case clienttesting.GetAction:
		if now := c.all[a.GetName()]; now != nil {
			return true, now.DeepCopy(), nil
		}
		return true, nil, apierrors.NewNotFound(gr, a.GetName())
	}
	return true, nil, fmt.Errorf("%s is not expected", a.GetVerb())
}

// reservations are the names that are reserved.
func (c *configMaps) reservations() (out []*corev1.ConfigMap) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, m := range c.all {
		if strings.HasPrefix(name, "upload.") {
			out = append(out, m)
		}
	}
	return out
}

// newReservingWorld is a world in which no cache ever sees what is written: each request is as on a replica of its own.
func newReservingWorld(t *testing.T, now func() time.Time) (*scopetest.World, *configMaps) {
	c := &configMaps{all: map[string]*corev1.ConfigMap{}}
	client := fake.NewClientset()
	client.PrependReactor("*", "configmaps", c.react)
	w := scopetest.New(t, map[string][]map[string]any{"applications": {}, "applicationversions": {}, "categories": {
		scopetest.Object("categories", v2.CategoryUncategorized, "", "", nil)}}, func(s *scope.Store, ws *restful.WebService) {
		h := app.New(s, file.NewConfigMaps(client.CoreV1()))
		h.Now = now
		h.Routes(ws)
	})
	w.Users = map[string]scopetest.Rights{"new": {Workspaces: map[string][]string{"c": {"*"}, "d": {"*"}}}}
	return w, c
}

// X31: many requests upload one name to a workspace at the same moment, each before any cache knows of another one: one application is made, the others
// are told, and nothing is left of them. Another workspace has its own.
func TestX31OfUploadsOfOneNameOneIsMade(t *testing.T) {
	w, c := newReservingWorld(t, time.Now)
	body, codes := asJSON(shop(t, "1.0.0"), ""), make([]int, 16)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() { codes[i], _ = w.Send("new", http.MethodPost, "/workspaces/c/apps", body) })
	}
	all.Wait()
	slices.Sort(codes)
	if codes[0] != http.StatusOK || codes[1] != http.StatusConflict || codes[len(codes)-1] != http.StatusConflict {
		t.Errorf("the answers are %v", codes)
	}
	applications := 0
	for _, write := range w.Writes() {
		if write == "POST applications" {
			applications++
		}
	}
	if held := c.reservations(); applications != 1 || len(held) != 1 || len(held[0].OwnerReferences) != 1 {
		t.Errorf("%d applications were created, and the reservations are %v", applications, held)
	}
	w.Expect(http.StatusOK, "new", http.MethodPost, "/workspaces/d/apps", body)
}

// X31: a name is free again once its application is gone, or its upload has failed; one that was interrupted keeps it for a minute.
func TestX31ANameIsFreeOnceItsApplicationIsGone(t *testing.T) {
	now := time.Now()
	w, c := newReservingWorld(t, func() time.Time { return now })
	body, apps := asJSON(shop(t, "1.0.0"), ""), "/workspaces/c/apps"
	upload := func(t *testing.T, code int) string {
		t.Helper()
		return object[made](t, w.Expect(code, "new", http.MethodPost, apps, body)).AppID
	}
	first := upload(t, http.StatusOK)
	if held := c.reservations(); len(held) != 1 || held[0].OwnerReferences[0].Name != first ||
		string(held[0].OwnerReferences[0].UID) != w.Live("applications", first)["metadata"].(map[string]any)["uid"] {
		t.Errorf("the reservations are %v", held)
	}
	if text := w.Expect(http.StatusConflict, "new", http.MethodPost, apps, body); !strings.Contains(text, first) {
		t.Error(text)
	}
	w.Set("applications", first, "")
	w.Expect(http.StatusNotFound, "new", http.MethodDelete, apps+"/"+first+"x", "")
	w.Remove("applications", first)
	second := upload(t, http.StatusOK)

	w.Remove("applications", second)
	c.failing = "update" // the reservation can't be kept, nor can the package
	upload(t, http.StatusInternalServerError)
	c.failing = ""
	third := upload(t, http.StatusOK)

	w.Remove("applications", third)
	for _, m := range c.reservations() { // as if the server had died before it made the application
		m.OwnerReferences = nil
	}
	upload(t, http.StatusConflict)
	now = now.Add(2 * time.Minute)
	upload(t, http.StatusOK)
}

// uploads are files of which one can't be kept: broken is called with its name.
type uploads struct {
	*file.ConfigMaps
	broken func(name string)
}

func (u *uploads) Put(ctx context.Context, name string, labels map[string]string, content []byte) error {
	if u.broken != nil {
		u.broken(name)
		return apierrors.NewServiceUnavailable("the bucket is away")
	}
	return u.ConfigMaps.Put(ctx, name, labels, content)
}

// X31: an upload whose package can't be kept leaves nothing, whatever controllers have noted in it by then, and where the client has gone by
// then: the next one succeeds.
func TestX31AnUploadWithoutItsPackageLeavesNothing(t *testing.T) {
	for claim, leaves := range map[string]bool{"the client waits": false, "the client has gone": true} {
		t.Run(claim, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("*", "configmaps", (&configMaps{all: map[string]*corev1.ConfigMap{}}).react)
			files, leave := &uploads{ConfigMaps: file.NewConfigMaps(client.CoreV1())}, context.CancelFunc(nil)
			w := scopetest.New(t, map[string][]map[string]any{"applications": {}, "applicationversions": {}, "categories": {
				scopetest.Object("categories", v2.CategoryUncategorized, "", "", nil)}}, func(s *scope.Store, ws *restful.WebService) {
				ws.Filter(func(r *restful.Request, response *restful.Response, chain *restful.FilterChain) {
					var ctx context.Context
					ctx, leave = context.WithCancel(r.Request.Context())
					defer leave()
					r.Request = r.Request.WithContext(ctx)
					chain.ProcessFilter(r, response)
				})
				app.New(s, files).Routes(ws)
			})
			w.Users = map[string]scopetest.Rights{"new": {Workspaces: map[string][]string{"c": {"*"}}}}
			var application, version string
			fail := func(name string) {
				application = w.Live("applicationversions", name)["metadata"].(map[string]any)["labels"].(map[string]any)[v2.LabelApp].(string)
				version = name
				w.Set("applications", application, v2.StateDraft) // as ks-controller-manager does
				w.Set("applicationversions", version, v2.StateDraft)
				if leaves {
					leave()
				}
			}
			files.broken = fail
			w.Send("new", http.MethodPost, "/workspaces/c/apps", asJSON(shop(t, "1.0.0"), ""))
			if a, v := w.Live("applications", application), w.Live("applicationversions", version); version == "" || a != nil || v != nil {
				t.Errorf("left are %v and %v", a, v)
			}
			files.broken = nil
			first := object[made](t, w.Expect(http.StatusOK, "new", http.MethodPost, "/workspaces/c/apps", asJSON(shop(t, "1.0.0"), "")))
			files.broken = fail
			more := "/workspaces/c/apps/" + first.AppID + "/versions"
			w.Send("new", http.MethodPost, more, asJSON(shop(t, "2.0.0"), ""))
			if v := w.Live("applicationversions", version); version == first.VersionID || v != nil {
				t.Errorf("left is %v", v)
			}
			files.broken = nil
			w.Expect(http.StatusOK, "new", http.MethodPost, more, asJSON(shop(t, "2.0.0"), ""))
		})
	}
}

// X31: a reservation that somebody else has taken over is neither kept nor given up by who had it.
func TestX31ALateUploadLeavesTheReservationOfTheNextOne(t *testing.T) {
	c := &configMaps{all: map[string]*corev1.ConfigMap{}}
	client := fake.NewClientset()
	client.PrependReactor("*", "configmaps", c.react)
	names, ctx := file.NewConfigMaps(client.CoreV1()), context.Background()
	late, ok, err := names.Reserve(ctx, "c", "shop")
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := names.Release(ctx, &late); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := names.Reserve(ctx, "c", "shop"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := names.Keep(ctx, &late, metav1.OwnerReference{Name: "late"}); !apierrors.IsConflict(err) {
		t.Errorf("it was kept: %v", err)
	}
	if err := names.Release(ctx, &late); err != nil || len(c.reservations()) != 1 {
		t.Errorf("%v, %v", err, c.reservations())
	}
	if _, ok, err := names.Reserve(ctx, "c", "shop"); ok || err != nil {
		t.Errorf("a third one has it: %v %v", ok, err)
	}
}

// What is reserved for one name of one workspace is reserved for no other: equal ids are of equal texts.
func FuzzReservations(f *testing.F) {
	f.Add("a", "b", "a\",\"b", "")
	f.Add("a", "b", "ab", "")
	f.Fuzz(func(t *testing.T, workspace, name, otherWorkspace, otherName string) {
		c := &configMaps{all: map[string]*corev1.ConfigMap{}}
		client := fake.NewClientset()
		client.PrependReactor("*", "configmaps", c.react)
		names := file.NewConfigMaps(client.CoreV1())
		if _, ok, err := names.Reserve(t.Context(), workspace, name); !ok || err != nil {
			t.Fatal(ok, err)
		}
		same := jsonText(workspace) == jsonText(otherWorkspace) && jsonText(name) == jsonText(otherName)
		if _, ok, err := names.Reserve(t.Context(), otherWorkspace, otherName); err != nil || ok == same {
			t.Errorf("%q %q and %q %q: %v %v", workspace, name, otherWorkspace, otherName, ok, err)
		}
	})
}

// jsonText is a text as objects have it: JSON has no bytes that are not UTF-8.
func jsonText(s string) string {
	text, _ := json.Marshal(s)
	return string(text)
}
