package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kapis.dev/ks-apiserver/tools/stack"
)

// listed is an answer to a list over all clusters.
type listed struct {
	TotalItems int
	Next       string
	Facets     map[string]map[string]int
	Clusters   struct {
		Asked, Answered int
		Missing         []struct{ Name, Reason string }
		Refused         []string
	}
	Items []struct {
		Metadata struct {
			Name, Namespace, UID string
			Annotations          map[string]string
		}
	}
}

// ids returns cluster and name of each item.
func (l *listed) ids() []string {
	out := []string{}
	for _, i := range l.Items {
		out = append(out, i.Metadata.Annotations["kapis.dev/cluster"]+" "+i.Metadata.Name)
	}
	return out
}

const fleetMaps = "/fleet/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/configmaps"

func list(t *testing.T, u user, parameters string) *listed {
	t.Helper()
	out := &listed{}
	text := u.must(t, http.StatusOK, http.MethodGet, fleetMaps+"?"+parameters, nil)
	if err := json.Unmarshal([]byte(text), out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// prefixOf returns the beginning of paths at a cluster.
func prefixOf(cluster string) string {
	if cluster == "host" {
		return ""
	}
	return "/clusters/" + cluster
}

// labelled creates ConfigMaps of these names with a label in clusters, which lists over all clusters show once this returns.
func labelled(t *testing.T, label string, names map[string][]string) {
	t.Helper()
	a, n := admin(t), 0
	for cluster, of := range names {
		for _, name := range of {
			n++
			o := configMap(name)
			o["metadata"] = obj{"name": name, "labels": obj{"list": label}, "annotations": obj{"kapis.dev/cluster": "elsewhere"}}
			a.must(t, http.StatusCreated, http.MethodPost, prefixOf(cluster)+configMaps, o)
			t.Cleanup(func() {
				_, _ = a.ask(context.Background(), http.MethodDelete, prefixOf(cluster)+configMaps+"/"+name, nil)
			})
		}
	}
	eventually(t, "the lists show all", func(context.Context) error {
		if l := list(t, a, "limit=0&memberTimeout=10s&labelSelector=list="+label); l.TotalItems != n {
			return fmt.Errorf("%+v, want %d", l, n)
		}
		return nil
	})
}

// F34, F36: one list over all clusters, in any order, by any pages; each object says where it is.
func TestAListOverAllClusters(t *testing.T) {
	a := admin(t)
	labelled(t, "all", map[string][]string{"host": {"a-1", "c-1", "e-1", "same-1"}, direct: {"b-1", "d-1", "same-1"}, dialer: {"a-2", "f-1", "same-1"}})
	v := "memberTimeout=10s&labelSelector=list=all&ascending=true"
	want := []string{"host a-1", dialer + " a-2", direct + " b-1", "host c-1", direct + " d-1", "host e-1",
		dialer + " f-1", "host same-1", direct + " same-1", dialer + " same-1"}
	var got []string
	for next := ""; ; {
		l := list(t, a, v+"&sortBy=name&limit=3&next="+next)
		if l.Clusters.Asked != 3 || l.Clusters.Answered != 3 || len(l.Clusters.Missing) > 0 || l.TotalItems != len(want) {
			t.Fatalf("%+v", l)
		}
		if got = append(got, l.ids()...); l.Next == "" {
			break
		}
		next = l.Next
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages by next are %q, want %q", got, want)
	}
	if got := list(t, a, v+"&sortBy=name&limit=4&page=2").ids(); !slices.Equal(got, want[4:8]) {
		t.Errorf("the second page is %q, want %q", got, want[4:8])
	}
	byCluster := slices.Clone(want)
	slices.Sort(byCluster)
	if got := list(t, a, v+"&sortBy=cluster,name").ids(); !slices.Equal(got, byCluster) {
		t.Errorf("by cluster they are %q, want %q", got, byCluster)
	}
	l := list(t, a, v+"&limit=1&facets=cluster,metadata.labels.list&clusters=host,"+dialer+",nowhere&fields=.metadata.name")
	if fmt.Sprint(l.Facets["cluster"]) != fmt.Sprint(map[string]int{"host": 4, dialer: 3}) || !slices.Equal(l.Clusters.Refused, []string{"nowhere"}) ||
		l.Items[0].Metadata.UID == "" {
		t.Errorf("%+v", l)
	}
	for _, q := range []string{"limit=501", "sortBy=colour", "next=x", "memberTimeout=1ms"} {
		a.must(t, http.StatusBadRequest, http.MethodGet, fleetMaps+"?"+q, nil)
	}
	a.must(t, http.StatusMethodNotAllowed, http.MethodPost, fleetMaps, configMap("x"))
	for _, path := range []string{"/fleet/api/v1/pods", "/fleet/kapis/clusters/" + direct + "/apps/v1/deployments", "/fleet/kapi/v1/namespaces/default/pods/x",
		"/fleet/kapis/apps/v1/watch/deployments", "/clusters/" + direct + "/fleet/kapi/v1/pods"} {
		a.must(t, http.StatusNotFound, http.MethodGet, path, nil)
	}
	first, err := a.ask(t.Context(), http.MethodGet, fleetMaps+"?"+v, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := product.Do(t.Context(), stack.Request{Path: fleetMaps + "?" + v, Token: a.token,
		Header: http.Header{"If-None-Match": {first.Header.Get("Etag")}}})
	if err != nil || again.Status != http.StatusNotModified {
		t.Errorf("the same again is %d, %v", again.Status, err)
	}
	// F36: an answer that is kept is that of now: a change in a member is in the next one.
	at, o := "/clusters/"+dialer+configMaps, configMap("g-1")
	o["metadata"] = obj{"name": "g-1", "labels": obj{"list": "all"}}
	total := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d objects are listed", n), func(context.Context) error {
			if l := list(t, a, v); l.TotalItems != n || len(l.Items) != n {
				return fmt.Errorf("%d, of %d", len(l.Items), l.TotalItems)
			}
			return nil
		})
	}
	total(len(want))
	a.must(t, http.StatusCreated, http.MethodPost, at, o)
	total(len(want) + 1)
	a.must(t, http.StatusOK, http.MethodDelete, at+"/g-1", nil)
	total(len(want))
	// Members have not sent again what had not changed.
	metrics := a.must(t, http.StatusOK, http.MethodGet, "/metrics", nil)
	for _, member := range members {
		if !strings.Contains(metrics, `ks_fleet_unchanged_total{cluster="`+member+`"}`) {
			t.Errorf("%s has sent all pages again", member)
		}
	}
	if strings.Contains(metrics, "ks_fleet_kept_bytes 0\n") {
		t.Error("no answer is kept")
	}
}

// F14, F36: everybody gets what they may see in each cluster, and learns of no other.
func TestAListOverAllClustersShowsWhatEachWouldShow(t *testing.T) {
	a, u := admin(t), newUser(t, "lister")
	labelled(t, "rights", map[string][]string{"host": {"r-1"}, direct: {"r-2"}, dialer: {"r-3"}})
	const v = "memberTimeout=10s&labelSelector=list=rights"
	body := u.must(t, http.StatusForbidden, http.MethodGet, fleetMaps+"?"+v, nil)
	named, nowhere := u.must(t, http.StatusForbidden, http.MethodGet, fleetMaps+"?clusters="+direct, nil), u.must(t, http.StatusForbidden, http.MethodGet,
		fleetMaps+"?clusters=nowhere", nil)
	if strings.Contains(body, "member-") || named != nowhere {
		t.Errorf("a stranger learns of clusters: %s %s %s", body, named, nowhere)
	}
	resp, err := product.Do(t.Context(), stack.Request{Path: fleetMaps})
	if err != nil || resp.Status != http.StatusForbidden {
		t.Errorf("nobody gets %d, %v", resp.Status, err)
	}
	a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalroles", nameRole("listers"))
	a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalrolebindings", nameBinding("listers", u.name))
	t.Cleanup(func() { _, _ = a.ask(context.Background(), http.MethodDelete, iam+"/globalroles/listers", nil) })
	eventually(t, "the right is everywhere", func(context.Context) error {
		resp, err := u.ask(t.Context(), http.MethodGet, fleetMaps+"?"+v+"&sortBy=name&ascending=true", nil)
		if err != nil || resp.Status != http.StatusOK {
			return fmt.Errorf("%d %s %w", resp.Status, resp.Body, err)
		}
		l := &listed{}
		if err := json.Unmarshal(resp.Body, l); err != nil || !slices.Equal(l.ids(), []string{"host r-1", direct + " r-2", dialer + " r-3"}) {
			return fmt.Errorf("%s %w", resp.Body, err)
		}
		return nil
	})
	lines, end := events(t, u, fleetMaps+"?watch=true&labelSelector=list%3Drights")
	defer end()
	for range 3 {
		until(t, lines, `"ADDED"`)
	}
	a.must(t, http.StatusOK, http.MethodDelete, iam+"/globalrolebindings/listers", nil)
	u.becomes(t, patience, http.StatusForbidden, http.MethodGet, fleetMaps+"?"+v+"&sortBy=name&ascending=true", nil)
	for _, member := range members {
		u.becomes(t, patience, http.StatusForbidden, http.MethodGet, "/clusters/"+member+"/kapi/v1/namespaces/default/configmaps", nil)
	}
}

func nameRole(name string) obj {
	return named("GlobalRole", name, obj{"rules": []obj{
		{"verbs": []string{"get", "list", "watch"}, "apiGroups": []string{""}, "resources": []string{"configmaps"}},
	}})
}

func nameBinding(name, to string) obj {
	return named("GlobalRoleBinding", name, obj{"roleRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": name},
		"subjects": []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": to}}})
}

// F35, F37: a member that stops answering is named, and costs the others nothing; a watch of all clusters goes on, and with it when it is back.
func TestAListOverAllClustersWithoutOne(t *testing.T) {
	a := admin(t)
	labelled(t, "without", map[string][]string{"host": {"w-1"}, direct: {"w-2"}, dialer: {"w-3"}})
	const v = "memberTimeout=10s&labelSelector=list%3Dwithout"
	lines, end := events(t, a, fleetMaps+"?watch=true&"+v)
	defer end()
	for range 3 {
		until(t, lines, `"ADDED"`)
	}
	live, endLive := events(t, a, fleetMaps+"?view=live&limit=10&sortBy=name&"+v)
	defer endLive()
	until(t, live, "w-3")
	process := pid(t, dialer)
	if err := syscall.Kill(process, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(process, syscall.SIGCONT) }()
	l := list(t, a, v+"&sortBy=name&ascending=true")
	if len(l.Clusters.Missing) != 1 || l.Clusters.Missing[0].Name != dialer || slices.Contains(l.ids(), dialer+" w-3") {
		t.Errorf("%+v", l)
	}
	resp, err := a.ask(t.Context(), http.MethodGet, fleetMaps+"?"+v+"&require=all", nil)
	if err != nil || resp.Status != http.StatusServiceUnavailable || !strings.Contains(string(resp.Body), dialer) {
		t.Errorf("require=all: %d %s %v", resp.Status, resp.Body, err)
	}
	until(t, lines, `"kapis.dev/clusters-missing":"`+dialer+`"`)
	o := configMap("w-4")
	o["metadata"] = obj{"name": "w-4", "labels": obj{"list": "without"}}
	a.must(t, http.StatusCreated, http.MethodPost, configMaps, o)
	t.Cleanup(func() { _, _ = a.ask(context.Background(), http.MethodDelete, configMaps+"/w-4", nil) })
	until(t, lines, "w-4")
	until(t, live, "w-4")
	if err := syscall.Kill(process, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	at := "/clusters/" + dialer + configMaps
	o["metadata"] = obj{"name": "w-5", "labels": obj{"list": "without"}}
	t.Cleanup(func() { _, _ = a.ask(context.Background(), http.MethodDelete, at+"/w-5", nil) })
	eventually(t, "it takes writes again", func(ctx context.Context) error {
		resp, err := a.ask(ctx, http.MethodPost, at, o)
		if err == nil && resp.Status != http.StatusCreated && resp.Status != http.StatusConflict { // the answer to the one that did it may be lost
			err = fmt.Errorf("%d %.300s", resp.Status, resp.Body)
		}
		return err
	})
	for deleted := false; !deleted; {
		line, open := <-lines
		if !open {
			t.Fatal("the watch has ended")
		}
		if strings.Contains(line, `"DELETED"`) {
			t.Fatalf("a lost cluster deletes: %s", line)
		}
		deleted = strings.Contains(line, "w-5")
	}
	until(t, live, "w-5")
	u := url.Values{"labelSelector": {"list=without"}, "clusters": {dialer}, "memberTimeout": {"10s"}}
	eventually(t, "the list is whole again", func(context.Context) error {
		if l := list(t, a, u.Encode()); l.TotalItems != 2 || len(l.Clusters.Missing) > 0 {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
}

// F37: a watch over all clusters begins as informers of client-go ask, and then goes on.
func TestAWatchOverAllClustersBeginsWithWhatThereIs(t *testing.T) {
	a := admin(t)
	labelled(t, "initial", map[string][]string{"host": {"i-1"}, direct: {"i-2"}, dialer: {"i-3"}})
	// A member that is late for the list of a watch from now on is followed from when it answers.
	const v = "?watch=true&memberTimeout=10s&labelSelector=list%3Dinitial&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents="
	lines, end := events(t, a, fleetMaps+v+"true")
	defer end()
	seen := 0
	for ended := false; !ended; {
		line, open := <-lines
		if !open {
			t.Fatal("the watch has ended")
		}
		if strings.Contains(line, `"ADDED"`) {
			seen++
		}
		if ended = strings.Contains(line, `"k8s.io/initial-events-end":"true"`); ended &&
			(seen != 3 || !strings.Contains(line, `"kind":"ConfigMap"`) || !strings.Contains(line, `"kapis.dev/clusters-missing":""`)) {
			t.Errorf("after %d objects: %s", seen, line)
		}
	}
	now, endNow := events(t, a, fleetMaps+v+"false")
	defer endNow()
	o := configMap("i-4")
	o["metadata"] = obj{"name": "i-4", "labels": obj{"list": "initial"}}
	a.must(t, http.StatusCreated, http.MethodPost, prefixOf(dialer)+configMaps, o)
	t.Cleanup(func() { _, _ = a.ask(context.Background(), http.MethodDelete, prefixOf(dialer)+configMaps+"/i-4", nil) })
	until(t, lines, "i-4")
	for line := range now {
		if strings.Contains(line, "i-4") {
			break
		}
		if strings.Contains(line, `"ADDED"`) {
			t.Errorf("a watch from now on begins with %s", line)
		}
	}
}

// F35, F36: a search finds objects of several kinds in all clusters, of each what the caller may see there.
func TestASearchOverAllClusters(t *testing.T) {
	a, u := admin(t), newUser(t, "searcher")
	labelled(t, "needle", map[string][]string{"host": {"s-1"}, direct: {"s-2"}, dialer: {"s-3"}})
	const path = "/fleet/search?q=needle&kinds=configmaps,v1/pods&namespace=default&sortBy=name&ascending=true&memberTimeout=10s"
	var found struct {
		Results  []listed
		Clusters struct{ Missing, Refused []any }
	}
	eventually(t, "the search finds all", func(ctx context.Context) error {
		resp, err := a.ask(ctx, http.MethodGet, path, nil)
		if err != nil || resp.Status != http.StatusOK {
			return fmt.Errorf("%d %s %w", resp.Status, resp.Body, err)
		}
		found.Results, found.Clusters.Missing = nil, nil
		if err := json.Unmarshal(resp.Body, &found); err != nil || len(found.Results) != 2 || found.Results[0].TotalItems != 3 ||
			found.Results[1].Clusters.Answered != 3 || len(found.Clusters.Missing) > 0 {
			return fmt.Errorf("%s %w", resp.Body, err)
		}
		return nil
	})
	if got := found.Results[0].ids(); !slices.Equal(got, []string{"host s-1", direct + " s-2", dialer + " s-3"}) {
		t.Errorf("it finds %q", got)
	}
	if found.Results[1].TotalItems != 0 {
		t.Errorf("%+v", found)
	}
	there := u.must(t, http.StatusForbidden, http.MethodGet, path+"&clusters="+direct, nil)
	if nowhere := u.must(t, http.StatusForbidden, http.MethodGet, path+"&clusters=nowhere", nil); there != nowhere || strings.Contains(there, direct) {
		t.Errorf("a stranger learns of clusters: %s %s", there, nowhere)
	}
	u.must(t, http.StatusBadRequest, http.MethodGet, "/fleet/search", nil)
}
