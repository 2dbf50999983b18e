package resource

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/kind"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const claimsAt = "/api/v1/persistentvolumeclaims"

// mounting is a pod with volumes of claims.
func mounting(key string, version int, claims ...string) string {
	var volumes []string
	for _, c := range claims {
		volumes = append(volumes, `{"name":"v","persistentVolumeClaim":{"claimName":"`+c+`"}}`)
	}
	volumes = append(volumes, `{"name":"scratch","ephemeral":{}}`)
	text := obj(key, "", `"spec":{"volumes":[`+strings.Join(volumes, ",")+`]},"status":{"phase":"Succeeded"}`)
	return strings.Replace(text, `"resourceVersion":"7"`, `"resourceVersion":"`+strings.Repeat("1", version)+`"`, 1)
}

func claimWorld(t *testing.T) *world {
	return newCluster(t, map[string][]string{
		podsAt: {mounting("a/p", 4, "data"), mounting("b/q", 4, "other", "twice", "twice")},
		claimsAt: {
			obj("a/data", "", ""), obj("b/data", `"annotations":{"kubesphere.io/in-use":"true","x":"y"}`, ""),
			obj("b/other", `"annotations":{"x":"y"}`, ""), obj("b/twice", "", ""), obj("a/p-scratch", "", ""),
		},
	}, Options{})
}

// uses are the claims of a page, each with its annotation.
func uses(t *testing.T, p *page.Page) string {
	t.Helper()
	var out []string
	for i, key := range keysOf(t, p) {
		out = append(out, key+"="+rawjson.GetText(itemOf(p, i), "metadata", "annotations", "kubesphere.io/in-use"))
	}
	return strings.Join(out, " ")
}

func TestAClaimSaysWhetherAPodOfItsNamespaceMountsIt(t *testing.T) {
	w := claimWorld(t)
	k := w.resolve(t, "", "persistentvolumeclaims")
	const all = "a/data=true a/p-scratch=true b/data=false b/other=true b/twice=true"
	for range 3 { // the first, the recorded, the cached
		if got := uses(t, w.page(t, k, "sortBy=namespace,name&ascending=true")); got != all {
			t.Errorf("%s\nwant %s", got, all)
		}
	}
	for raw, want := range map[string]string{
		"names=data&sortBy=namespace&ascending=true": "a/data=true b/data=false",
		"limit=1&sortBy=namespace,name":              "b/twice=true",
		"fields=metadata&names=other":                "b/other=true",
		"annotation=kubesphere.io/in-use":            "b/data=false", // filters see what is stored
	} {
		if got := uses(t, w.page(t, k, raw)); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
	p := w.page(t, k, "fields=metadata.name&names=other")
	if got := itemOf(p, 0); strings.Contains(got, "annotations") {
		t.Errorf("what was not asked for shows: %s", got)
	}
	p = w.page(t, k, "names=other")
	answer := respond(p.Items(), http.MethodGet)
	if body := answer.Body.String(); !strings.Contains(body, `"annotations":{"kubesphere.io/in-use":"true","x":"y"}`) ||
		answer.Header().Get("Content-Length") == "" || !strings.HasSuffix(body, "]}") {
		t.Errorf("%s %s", answer.Header(), body)
	}
	o, err := w.Get(t.Context(), k, plan.Scope{Namespace: "b"}, "data")
	if err != nil || !strings.Contains(o.JSON.String(), `"annotations":{"kubesphere.io/in-use":"false","x":"y"}`) ||
		!strings.Contains(o.JSON.String(), `"resourceVersion":"7"`) {
		t.Errorf("%v %+v", err, o)
	}
}

func TestThePodsOfAClaimAreFoundByItsIndex(t *testing.T) {
	w := claimWorld(t)
	k := w.resolve(t, "", "pods")
	for _, c := range []struct{ namespace, claim, want string }{
		{"a", "data", "a/p"}, {"b", "data", ""}, {"b", "other", "b/q"}, {"b", "twice", "b/q"}, {"a", "p-scratch", "a/p"}, {"", "other", "b/q"}, {"b", "oth", ""},
		{"a", "", ""},
	} {
		if got := w.keys(t, k, plan.Scope{Namespace: c.namespace}, "pvcName="+c.claim); got != c.want {
			t.Errorf("%s/%s: %s, want %s", c.namespace, c.claim, got, c.want)
		}
	}
}

func TestTheTagOfClaimsChangesWithTheirUse(t *testing.T) {
	w := claimWorld(t)
	k, scope := w.resolve(t, "", "persistentvolumeclaims"), plan.Scope{Namespace: "b"}
	tags := func() (list, one string) {
		t.Helper()
		p, err := w.list(t, k, scope, "names=data")
		if err != nil {
			t.Fatal(err)
		}
		o, err := w.Get(t.Context(), k, scope, "data")
		if err != nil {
			t.Fatal(err)
		}
		return respond(p.List(), http.MethodGet).Header().Get("Etag"), respond(o, http.MethodGet).Header().Get("Etag")
	}
	list, one := tags()
	if again, same := tags(); again != list || same != one {
		t.Error("the tags of what has not changed change")
	}
	pods, err := w.store.Watch(t.Context(), kind.PodsKind)
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Close()
	w.send(podsAt, "ADDED", mounting("b/another", 5, "elsewhere"))
	until(t, pods, index.HasMember(4, "b", "elsewhere"))
	if again, same := tags(); again != list || same != one {
		t.Error("a pod that mounts another claim changes the tags")
	}
	w.send(podsAt, "MODIFIED", mounting("b/another", 6, "elsewhere", "data"))
	until(t, pods, index.HasMember(4, "b", "data"))
	if used, uses := tags(); used == list || uses == one {
		t.Error("the tags of a claim in use are those of one that is not")
	}
}

func until(t *testing.T, w *store.Watch, term index.Term) {
	t.Helper()
	for snap := w.Snapshot(); !snap.Any(term); {
		var err error
		if snap, err = w.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStorageClassesSayHowManyClaimsTheyHaveToWhoMayListThemAll(t *testing.T) {
	w := newCluster(t, map[string][]string{
		"/apis/storage.k8s.io/v1/storageclasses": {
			obj("fast", `"annotations":{"storageclass.kubesphere.io/support-snapshot":"true"}`, ""),
			obj("idle", `"annotations":{"kubesphere.io/pvc-count":"9"}`, ""),
		},
		claimsAt: {
			obj("a/one", "", `"spec":{"storageClassName":"fast"}`), obj("b/one", "", `"spec":{"storageClassName":"fast"}`), obj("b/two", "", `"spec":{}`),
		},
	}, Options{})
	k := w.resolve(t, "storage.k8s.io", "storageclasses")
	may := func(allowed bool) plan.Scope {
		return plan.Scope{MayList: func(_ context.Context, gvr schema.GroupVersionResource) bool {
			if gvr != kind.ClaimsKind {
				t.Errorf("asked about %v", gvr)
			}
			return allowed
		}}
	}
	for _, c := range []struct {
		scope      plan.Scope
		fast, idle string
	}{{may(true), "2", "0"}, {may(false), "", ""}, {plan.Scope{}, "", ""}} {
		p, err := w.List(t.Context(), k, c.scope, parsed(t, "sortBy=name&ascending=true"))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{c.fast, c.idle} {
			if got := rawjson.GetText(itemOf(p, i), "metadata", "annotations", "kubesphere.io/pvc-count"); got != want {
				t.Errorf("%s has %q claims, want %q", p.Records[i].Name, got, want)
			}
		}
		if rawjson.GetText(itemOf(p, 0), "metadata", "annotations", "storageclass.kubesphere.io/support-snapshot") != "true" {
			t.Error("another annotation is gone")
		}
		o, err := w.Get(t.Context(), k, c.scope, "fast")
		if err != nil || rawjson.GetText(o.JSON.String(), "metadata", "annotations", "kubesphere.io/pvc-count") != c.fast {
			t.Errorf("%v %+v", err, o)
		}
	}
}

func TestManagedFieldsKeepWhatOtherKindsKnow(t *testing.T) {
	w := claimWorld(t)
	k := w.resolve(t, "", "persistentvolumeclaims")
	p, err := w.Complete(t.Context(), w.page(t, k, "names=other"), plan.Scope{}, readerFunc(func(string) ([]byte, error) {
		return []byte(obj("b/other", `"managedFields":[],"annotations":{"kubesphere.io/in-use":"false","z":"1"}`, "")), nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := itemOf(p, 0); !strings.Contains(got, `"annotations":{"kubesphere.io/in-use":"true","z":"1"}`) || !strings.Contains(got, "managedFields") {
		t.Error(got)
	}
}

func TestALivePageTellsWhenAClaimComesIntoUse(t *testing.T) {
	c := newLiveCluster(t)
	c.put(claimsAt, "a", "data", "}}", true)
	w := get(t, c.listen("persistentvolumeclaims", plan.Scope{}).URL+"?view=live&limit=10")
	text, _ := w.line()
	if !strings.Contains(text, `"kubesphere.io/in-use":"false"`) {
		t.Errorf("the page is %s", text)
	}
	c.put(podsAt, "a", "p", `},"spec":{"volumes":[{"persistentVolumeClaim":{"claimName":"data"}}]}}`, true)
	if text, _ = w.line(); !strings.Contains(text, `"kubesphere.io/in-use":"true"`) || !strings.Contains(text, "MODIFIED") {
		t.Errorf("the change is %s", text)
	}
}
