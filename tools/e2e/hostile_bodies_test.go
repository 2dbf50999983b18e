package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// hostileWorld is what people write into who mean harm.
type hostileWorld struct {
	*neighbours
	*sweep
	viewer string // a user, who gains from what others write
	uid    string // of b's namespace
}

// S79: objects of another kind, namespace or workspace, with somebody else's name or owner, with finalizers, managed fields, a status, the labels and
// annotations by which the platform
// works, and keys that are there twice, are written to every kind that decides something, by every verb and form of a patch, at both doors and by the way
// of a workspace, to one's own
// workspace, to another's and to the platform's, by everybody. What is accepted is what the path says, and where the writer has rights; everything else is
// as it was, and nobody has
// a right more.
func TestNoBodyWritesOutsideOfItsPath(t *testing.T) {
	proves(t, "S10", "S79")
	w := newHostileWorld(t)
	spots, begun, total := w.spots(t), time.Now(), 0
	t.Cleanup(func() { w.letGo(t) })
	for _, side := range []struct {
		mine  tenant
		place string
		names []string
	}{
		{w.a, "a", []string{"anonymous", "nobody", "viewer", "editor", "robot"}},
		{w.a, "a", []string{"owner", "key"}},
		{w.b, "b", []string{"other"}},
	} {
		var people []asker
		for _, p := range w.everybody {
			if slices.Contains(side.names, p.name) {
				people = append(people, p)
			}
		}
		rights, before := w.rights(t, people), w.outside(t, side.mine)
		for _, p := range people {
			asked, accepted := w.write(t, p, side.place, spots)
			t.Logf("%s wrote %d bodies, of which %d were accepted; %v since the beginning", p.name, asked, accepted, time.Since(begun).Round(time.Second))
			total += asked
			if theirs := slices.Contains([]string{"editor", "robot", "owner", "key", "other"}, p.name); (accepted > 0) != theirs {
				t.Errorf("of what %s wrote %d were accepted", p.name, accepted)
			}
		}
		w.garbageIsCollected(t)
		for _, change := range w.changes(before, w.outside(t, side.mine)) {
			t.Errorf("%v wrote outside of their own: %s", side.names, change)
		}
		for right := range w.rights(t, people) {
			if !rights[right] {
				t.Errorf("a right came of it: %s", right)
			}
		}
	}
	total += w.storeIsWritten(t, spots)
	t.Logf("%d writes in %v", total, time.Since(begun).Round(time.Second))
}

func newHostileWorld(t *testing.T) *hostileWorld {
	t.Helper()
	w := &hostileWorld{neighbours: newNeighbours(t, unique("hostile")), sweep: &sweep{routes: map[string][]string{}, names: map[string]string{}}}
	w.tenants = []string{w.one}
	w.viewer = w.one + "-viewer"
	w.discover(t)
	o, err := w.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(t.Context(), w.b.namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.uid = string(o.GetUID())
	return w
}

// write makes every attempt of one person, whose own place is place, and returns how many there were and how many were accepted.
func (w *hostileWorld) write(t *testing.T, who asker, place string, spots []spot) (asked, accepted int) {
	t.Helper()
	rightful := place
	if slices.Contains([]string{"anonymous", "nobody", "viewer"}, who.name) {
		rightful = "none"
	}
	var all []attempt
	for i, s := range spots {
		for j, m := range w.mutations() {
			n := i + j + len(who.name)
			all = append(all, s.attempt(t, m, writes[n%len(writes)], fmt.Sprintf("%s-h%d-%d-%s", w.one, i, j, who.name)))
			if s.place == rightful { // where writes may be accepted, each door has its share of all verbs
				all = append(all, s.attempt(t, m, writes[(n+3)%len(writes)], fmt.Sprintf("%s-h%d-%d-%s", w.one, i, j, who.name)))
			}
		}
		for _, many := range []bool{false, true} {
			a := attempt{spot: s, write: write{method: http.MethodDelete, contentType: "application/json", new: many}, path: s.path,
				body: `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`, name: s.name}
			if !many {
				a.path += "/" + s.name
			}
			if w.placeOf(a) != rightful { // one's own may be deleted
				all = append(all, a)
			}
		}
	}
	all = slices.DeleteFunc(all, func(a attempt) bool { return a.mutation == "OwnedByAbsent" && !a.new && w.placeOf(a) == rightful })
	verdicts := make([]string, len(all))
	taken := make([]bool, len(all))
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(askers)
	for i, a := range all {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			r, err := who.do(ctx, a.method, a.path, a.body, "Content-Type: "+a.contentType)
			taken[i] = err == nil && r.code < http.StatusMultipleChoices
			verdicts[i] = w.verdict(a, r, err, rightful)
			return nil
		})
	}
	_ = group.Wait() // errors are in the verdicts
	wrong := map[string]string{}
	for i, a := range all {
		if taken[i] {
			accepted++
		}
		if verdicts[i] != "" {
			wrong[a.method+" "+a.contentType+" "+a.api+" "+a.plural+" "+a.mutation+" of "+a.place] = fmt.Sprintf("%s: %s %s", verdicts[i], a.path, clip(a.body))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wrong)) {
		t.Errorf("%s: %s: %s", who.name, key, wrong[key])
	}
	return len(all), accepted
}

// kubeBreaks are kube-apiserver's own answers of code 500, to a version in a new object and to an applied object with fields that its schema has not.
var kubeBreaks = regexp.MustCompile(`"message":"(resourceVersion should not be set on objects to be created|failed to create typed patch object )`)

// placeOf tells whose an attempt is about. An object of the cluster that is made in a workspace is that one's.
func (w *hostileWorld) placeOf(a attempt) string {
	switch {
	case !a.new || a.namespaced:
		return a.place
	case strings.Contains(a.spot.path, "/workspaces/"+w.a.workspace):
		return "a"
	}
	return "platform"
}

// verdict says what is wrong with the answer to a write.
func (w *hostileWorld) verdict(a attempt, r reply, err error, rightful string) string {
	place := w.placeOf(a)
	switch {
	case err != nil:
		return err.Error()
	case r.code >= http.StatusInternalServerError && !kubeBreaks.MatchString(r.body) && !isAway(a, r):
		return fmt.Sprintf("it breaks, %d %s", r.code, clip(r.body))
	case r.code >= http.StatusMultipleChoices:
		return ""
	case place != rightful:
		return "it is accepted: " + clip(r.body)
	}
	var o unstructured.Unstructured
	if err := json.Unmarshal([]byte(r.body), &o.Object); err != nil {
		return err.Error()
	}
	if o.GetKind() == "" && strings.HasPrefix(a.path, storeAPI) { // which answers in words of its own
		return ""
	}
	workspace := map[string]string{"a": w.a.workspace, "b": w.b.workspace}[place]
	label, labelled := o.GetLabels()[workspaceLabel]
	byName := a.plural == "workspaces" || a.plural == "workspacetemplates" // whose these are says their name, and a label nothing
	switch {
	case o.GetKind() != a.kind, o.GetNamespace() != a.namespace, !a.new && o.GetName() != a.name:
		return "it wrote another object: " + clip(r.body)
	case !a.namespaced && !byName && labelled && label != workspace, a.plural == "namespaces" && label != workspace:
		return "it is another workspace's now: " + clip(r.body)
	}
	return ""
}

// rights are what people may do, by our roles and by kube-apiserver's, in both workspaces and on the platform.
func (w *hostileWorld) rights(t *testing.T, people []asker) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, p := range people {
		if p.name == "anonymous" || p.name == "key" { // who has the key is the owner
			continue
		}
		user, groups := p.user, []string{"system:authenticated"}
		if p.name == "robot" {
			user, groups = "system:serviceaccount:"+w.a.namespace+":robot", []string{"system:serviceaccounts", "system:serviceaccounts:" + w.a.namespace,
				"system:authenticated"}
		}
		var names []string
		var items []obj
		for _, namespace := range []string{"", w.a.namespace, w.b.namespace, systemNamespace} {
			for _, r := range [][3]string{
				{"get", "", "secrets"}, {"create", "", "pods"}, {"create", "", "pods/exec"}, {"delete", "", "namespaces"}, {"update", "rbac.authorization.k8s.io",
					"roles"}, {"create", "iam.kubesphere.io", "rolebindings"},
				{"update", "iam.kubesphere.io", "roles"}, {"update", "iam.kubesphere.io", "globalroles"}, {"update", "iam.kubesphere.io", "users"}, {"delete",
					"tenant.kubesphere.io", "workspacetemplates"}, {"impersonate", "", "users"},
			} {
				resource, sub, _ := strings.Cut(r[2], "/")
				names = append(names, fmt.Sprintf("%s may %s %s in %q", p.name, r[0], r[2], namespace))
				items = append(items, obj{"spec": obj{"user": user, "groups": groups, "resourceAttributes": obj{"verb": r[0], "group": r[1], "resource": resource,
					"subresource": sub, "namespace": namespace}}})
			}
		}
		answer := admin(t).must(t, http.StatusOK, http.MethodPost, iamRoutes+"/subjectaccessreviews", obj{"apiVersion": "v1", "kind": "List", "items": items})
		for i, item := range decode[struct {
			Items []struct{ Status struct{ Allowed bool } }
		}](t, answer.body).Items {
			if item.Status.Allowed {
				out[names[i]] = true
			}
		}
		for i, item := range items {
			item["apiVersion"], item["kind"] = "authorization.k8s.io/v1", "SubjectAccessReview"
			r := admin(t).must(t, http.StatusCreated, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", item)
			if decode[struct{ Status struct{ Allowed bool } }](t, r.body).Status.Allowed {
				out[names[i]+", by kube-apiserver"] = true
			}
		}
	}
	if len(out) == 0 && slices.ContainsFunc(people, func(p asker) bool { return p.name == "owner" }) {
		t.Error("the owner has no right: it would not be seen that he has more")
	}
	return out
}

// outside are the digests of all objects that are not in a workspace, their status aside.
func (w *hostileWorld) outside(t *testing.T, mine tenant) map[string][sha256.Size]byte {
	t.Helper()
	out, namespaces := map[string][sha256.Size]byte{}, map[string]bool{}
	l, err := w.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).List(t.Context(),
		metav1.ListOptions{LabelSelector: workspaceLabel + "=" + mine.workspace})
	if err != nil {
		t.Fatal(err)
	}
	for i := range l.Items {
		namespaces[l.Items[i].GetName()] = true
	}
	for _, k := range w.kinds {
		if !k.listed || slices.Contains(busy, k.Resource) || k.Resource == "namespaces" && k.Group != "" {
			continue
		}
		items := w.objectsOf(t, k, metav1.ListOptions{})
		for i := range items {
			o := &items[i]
			isMine := namespaces[o.GetNamespace()] || o.GetLabels()[workspaceLabel] == mine.workspace && o.GetNamespace() == "" ||
				k.Resource == "namespaces" && namespaces[o.GetName()] ||
				strings.HasPrefix(k.Resource, "workspace") && o.GetName() == mine.workspace || strings.HasPrefix(o.GetName(),
				"kubesphere:iam:") // the mirror's, which follows
			owners := o.GetOwnerReferences()
			planted := slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return r.UID == absentUID || string(r.UID) == w.uid })
			if isMine || len(owners) > 0 && !planted {
				continue
			}
			unstructured.RemoveNestedField(o.Object, "status")
			o.SetResourceVersion("")
			o.SetManagedFields(nil)
			out[k.Resource+"."+k.Group+"/"+k.Version+" "+o.GetNamespace()+"/"+o.GetName()] = sha256.Sum256([]byte(encode(t, o.Object)))
		}
	}
	return out
}

// garbageIsCollected returns when the garbage collector has taken what was made after all that was written.
func (w *hostileWorld) garbageIsCollected(t *testing.T) {
	t.Helper()
	name := unique("garbage")
	path := "/api/v1/namespaces/" + systemNamespace + "/configmaps"
	admin(t).must(t, http.StatusCreated, http.MethodPost, path, obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": name,
		"ownerReferences": []obj{
			{"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": absentUID},
		}}})
	eventually(t, "garbage is collected", admin(t).is(http.StatusNotFound, http.MethodGet, path+"/"+name))
}

// letGo takes the finalizers away that were accepted, or the workspaces could never go, and deletes what was made outside of namespaces.
func (w *hostileWorld) letGo(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, k := range hostileTargets(w.viewer, w.one) {
		gv, err := schema.ParseGroupVersion(k.api)
		if err != nil {
			t.Fatal(err)
		}
		client := w.client.Resource(gv.WithResource(k.plural))
		l, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Errorf("list %s: %v", k.plural, err)
			continue
		}
		for i := range l.Items {
			o := &l.Items[i]
			if slices.Contains(o.GetFinalizers(), hostileFinalizer) {
				_, err := client.Namespace(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
					metav1.PatchOptions{})
				if err != nil {
					t.Errorf("%s %s/%s keeps its finalizer: %v", k.plural, o.GetNamespace(), o.GetName(), err)
				}
			}
			if !k.namespaced && strings.HasPrefix(o.GetName(), w.one+"-h") {
				_ = client.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
			}
		}
	}
}
