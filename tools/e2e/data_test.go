package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// canary is what must not be read where only names may be. It is in data, in a key, and in what kubectl apply leaves.
const canary = "canary-7f3a9"

// hidden is the data of each object: in the other order than the names.
var hidden = map[string]string{"one": canary + "-z", "two": canary + "-a"}

// secretive is a namespace with a Secret and a ConfigMap whose data tell them from others.
type secretive struct{ ns, marker string }

func newSecretive(t *testing.T) secretive {
	t.Helper()
	s := secretive{newNamespace(t), unique("secretive")}
	for _, name := range []string{"one", "two"} {
		meta := obj{"name": name, "labels": obj{"marker": s.marker}, "annotations": obj{
			"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"key":"` + hidden[name] + `"}}`,
		}}
		admin(t).create(t, s.api()+"/secrets", obj{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": obj{"key": hidden[name]}})
		admin(t).create(t, s.api()+"/configmaps", obj{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": obj{"key": hidden[name]}, "binaryData": obj{"raw": encoded(hidden[name])},
		})
	}
	for _, kind := range kindsWithData {
		for _, path := range []string{kapis + "/" + kind, "/kapi/v1/" + kind} {
			eventually(t, kind+" are in the cache", admin(t).shows(path+"?labelSelector=marker%3D"+s.marker, []string{s.ns + "/one", s.ns + "/two"}))
		}
	}
	return s
}

var kindsWithData = []string{"secrets", "configmaps"}

func (s secretive) api() string { return "/api/v1/namespaces/" + s.ns }

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// bare fails the test where a text has data.
func bare(t *testing.T, what, text string) {
	t.Helper()
	for _, c := range []string{canary, encoded(canary), encoded(hidden["one"]), encoded(hidden["two"]), `"data"`, `"binaryData"`, `"stringData"`} {
		if strings.Contains(text, c) {
			t.Errorf("%s has %s: %s", what, c, clip(text))
		}
	}
}

func TestDataOfSecretsAndConfigMapsIsInNoListOfTheCluster(t *testing.T) { // S3, U11
	proves(t, "S3")
	a, s := admin(t), newSecretive(t)
	for _, kind := range kindsWithData {
		value := hidden["one"]
		if kind == "secrets" {
			value = encoded(value)
		}
		for _, root := range []string{kapis, "/kapi/v1", "/clusters/host/kapi/v1"} {
			for _, q := range []url.Values{
				{}, {"fields": {".metadata.name,.data"}}, {"fields": {".data.key,.binaryData,.stringData"}}, {"facets": {".data.key"}},
				{"facets": {".data,.binaryData.raw"}},
				{"sortBy": {".data.key"}}, {"sortBy": {".data.key,name"}, "ascending": {"true"}}, {"namespace": {s.ns}, "fields": {".data"}},
			} {
				q.Set("labelSelector", "marker="+s.marker)
				r := a.must(t, http.StatusOK, http.MethodGet, root+"/"+kind+"?"+q.Encode(), nil)
				bare(t, root+"/"+kind+"?"+q.Encode(), r.body)
				if l := decode[list](t, r.body); *l.TotalItems != 2 {
					t.Errorf("%s: %v", q.Encode(), l.keys())
				}
			}
			s.oracles(t, root+"/"+kind, value)
			s.unsortable(t, root+"/"+kind)
			for _, stream := range []string{"?watch=true&labelSelector=marker%3D" + s.marker, "?view=live&limit=5&labelSelector=marker%3D" + s.marker} {
				lines, _ := a.lines(t, root+"/"+kind+stream)
				until(t, stream, lines, func(l string) bool {
					bare(t, root+"/"+kind+stream, l)
					return strings.Contains(l, `"name":"two"`)
				})
			}
		}
	}
}

// oracles asks whether data is what it is: the answer must be the same for a right guess and a wrong one.
func (s secretive) oracles(t *testing.T, path, value string) {
	t.Helper()
	for _, ask := range []func(guess string) url.Values{
		func(g string) url.Values { return url.Values{"fieldSelector": {".data.key=" + g}} },
		func(g string) url.Values { return url.Values{"fieldSelector": {"data.key=" + g}} },
		func(g string) url.Values { return url.Values{"fieldSelector": {"data.key!=" + g}} },
		func(g string) url.Values { return url.Values{"fieldSelector": {"data.key=~" + strings.ToUpper(g)}} },
		func(g string) url.Values { return url.Values{"fieldSelector": {"binaryData.raw=" + g}} },
		func(g string) url.Values { return url.Values{"cel": {fmt.Sprintf("object.data.key == %q", g)}} },
		func(g string) url.Values {
			return url.Values{"cel": {fmt.Sprintf("has(object.data) && object.data.key.startsWith(%q)", g)}}
		},
		func(g string) url.Values { return url.Values{"q": {g}} },
		func(g string) url.Values { return url.Values{"name": {g}} },
		func(g string) url.Values {
			return url.Values{"annotation": {"kubectl.kubernetes.io/last-applied-configuration=" + g}}
		},
	} {
		answers := map[string][]int{}
		for name, guess := range map[string]string{"right": value, "wrong": "wrong"} {
			q := ask(guess)
			q.Set("labelSelector", "marker="+s.marker)
			r, err := admin(t).do(t.Context(), http.MethodGet, path+"?"+q.Encode(), nil)
			if err != nil {
				t.Fatal(err)
			}
			n := -1
			if r.code == http.StatusOK {
				n = *decode[list](t, r.body).TotalItems
			}
			answers[name] = []int{r.code, n}
		}
		if !slices.Equal(answers["right"], answers["wrong"]) {
			t.Errorf("%s?%s: code and total are %v for the right guess, %v for a wrong one", path, ask(value).Encode(), answers["right"], answers["wrong"])
		}
	}
	has := admin(t).must(t, http.StatusOK, http.MethodGet, path+"?"+url.Values{"labelSelector": {"marker=" + s.marker}, "cel": {"has(object.data)"}}.Encode(), nil)
	if *decode[list](t, has.body).TotalItems != 0 {
		t.Errorf("%s: an expression sees data", path)
	}
}

// unsortable compares an order by data with the order that the rest of the key gives: data must not be in it.
func (s secretive) unsortable(t *testing.T, path string) {
	t.Helper()
	q := path + "?ascending=true&labelSelector=marker%3D" + s.marker + "&sortBy="
	plain := admin(t).list(t, q+"name").names()
	for _, key := range []string{".data.key,name", ".binaryData.raw,name", ".data,name"} {
		if got := admin(t).list(t, q+key).names(); !slices.Equal(got, plain) {
			t.Errorf("%s%s: %v, want %v", q, key, got, plain)
		}
	}
}

func TestDataIsShownInANamespaceToWhoMayReadTheKindItself(t *testing.T) { // S3, U11
	proves(t, "S3")
	s, name, other := newSecretive(t), unique("keeper"), unique("browser")
	keeper, browser := newUser(t, name), newUser(t, other)
	read := []string{"get", "list", "watch"}
	role(t, s.ns, "keeper", rule{[]string{""}, kindsWithData, read})
	role(t, s.ns, "browser", rule{[]string{"resources.kubesphere.io"}, kindsWithData, read})
	bind(t, s.ns, "keeper", obj{"kind": "User", "name": name})
	bind(t, s.ns, "browser", obj{"kind": "User", "name": other})
	in := "/namespaces/" + s.ns + "/"
	for _, kind := range kindsWithData {
		value := hidden["one"]
		if kind == "secrets" {
			value = encoded(value)
		}
		for _, root := range []string{kapis, "/kapi/v1"} {
			for _, path := range []string{root + in + kind, root + in + kind + "/one", root + in + kind + "?fields=.data.key", root + in + kind +
				"?fieldSelector=data.key%3D" + url.QueryEscape(value)} {
				eventually(t, "the keeper reads "+path, keeper.has(path, value))
				bareOfApplied(t, path, keeper.must(t, http.StatusOK, http.MethodGet, path, nil).body)
			}
			// In the cluster he sees the same objects, without their data.
			r := keeper.must(t, http.StatusOK, http.MethodGet, root+"/"+kind+"?fields=.metadata,.data", nil)
			bare(t, "the keeper's list of the cluster", r.body)
			if err := keeper.shows(root+"/"+kind+"?labelSelector=marker%3D"+s.marker, []string{s.ns + "/one", s.ns + "/two"})(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for _, path := range []string{kapis + in + kind, kapis + in + kind + "/one", kapis + in + kind + "?fields=.metadata.name,.data", kapis + "/" + kind, kapis +
			in + kind + "?facets=.data.key&sortBy=.data.key"} {
			eventually(t, "the browser lists "+path, browser.has(path, `"name":"one"`))
			bare(t, "the browser's "+path, browser.must(t, http.StatusOK, http.MethodGet, path, nil).body)
		}
		for _, q := range []string{"fieldSelector=data.key%3D" + url.QueryEscape(value), "cel=has(object.data)"} {
			if err := browser.shows(kapis+in+kind+"?"+q, nil)(t.Context()); err != nil {
				t.Errorf("the browser asks about data: %v", err)
			}
		}
		for _, path := range []string{"/kapi/v1" + in + kind, "/kapi/v1" + in + kind + "/one", "/kapi/v1/" + kind, "/kapi/v1" + in + kind + "?watch=true", s.api() +
			"/" + kind} {
			browser.must(t, http.StatusForbidden, http.MethodGet, path, nil)
		}
		lines, _ := browser.lines(t, kapis+in+kind+"?watch=true")
		until(t, "the browser's watch", lines, func(l string) bool {
			bare(t, "the browser's watch", l)
			return strings.Contains(l, `"name":"two"`)
		})
		// Who asks with the other's tag is not told that he has it already.
		whole := keeper.must(t, http.StatusOK, http.MethodGet, kapis+in+kind, nil)
		if r := browser.must(t, http.StatusOK, http.MethodGet, kapis+in+kind, nil); r.body == whole.body {
			t.Error("both see the same")
		}
	}
}

// bareOfApplied fails the test where a text has the annotation that kubectl apply leaves, which has data too.
func bareOfApplied(t *testing.T, what, text string) {
	t.Helper()
	if strings.Contains(text, "last-applied") {
		t.Errorf("%s has what was applied: %s", what, clip(text))
	}
}

func TestDataThatHasChangedIsShown(t *testing.T) {
	a, s := admin(t), newSecretive(t)
	for _, root := range []string{kapis, "/kapi/v1"} {
		path := root + "/namespaces/" + s.ns + "/secrets"
		eventually(t, "the objects are in the cache", a.has(path, `"name":"one"`))
		value := encoded("changed by way of " + root)
		lines, _ := a.lines(t, "/kapi/v1/namespaces/"+s.ns+"/secrets?watch=true")
		done := a.write(t, http.MethodPatch, s.api()+"/secrets/one", `{"data":{"key":"`+value+`"}}`, asMerge)
		until(t, "the watch shows it", lines, func(l string) bool { return strings.Contains(l, value) })
		for _, at := range []string{path, path + "?fieldSelector=data.key%3D" + url.QueryEscape(value)} {
			version := "?resourceVersion="
			if strings.Contains(at, "?") {
				version = "&resourceVersion="
			}
			if l := a.must(t, http.StatusOK, http.MethodGet, at+version+done.Metadata.ResourceVersion, nil); !strings.Contains(l.body, value) {
				t.Errorf("%s as of the write: %s", at, clip(l.body))
			}
		}
		within(t, revocation, "one object shows it", a.has(path+"/one", value))
		bare(t, "the list of the cluster", a.must(t, http.StatusOK, http.MethodGet, root+"/secrets?labelSelector=marker%3D"+s.marker, nil).body)
	}
}

// Nobody reads, by way of the lists, what a User or a Cluster keeps for this server alone.
func TestDataOfUsersAndClustersIsShownToNobody(t *testing.T) { // S3, S57
	proves(t, "S3")
	a, name := admin(t), unique("hidden")
	newUser(t, name)
	a.create(t, "/apis/cluster.kubesphere.io/v1alpha1/clusters", obj{
		"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Cluster", "metadata": obj{"name": name},
		"spec": obj{"joinFederation": true, "connection": obj{"type": "direct", "kubeconfig": encoded(canary), "token": canary}},
	})
	for path, secrets := range map[string][]string{
		kapis + "/users": {"$2a$", `"password"`}, "/kapis/iam.kubesphere.io/v1beta1/users": {"$2a$", `"password"`},
		kapis + "/clusters": {canary, encoded(canary), `"kubeconfig"`, `"token"`},
		"/kapis/cluster.kubesphere.io/v1alpha1/clusters": {canary, encoded(canary), `"kubeconfig"`, `"token"`},
	} {
		eventually(t, path, a.has(path, `"name":"`+name+`"`))
		for _, query := range []string{"", "/" + name, "?name=" + name, "?fields=.metadata.name,.spec", "?facets=.spec.password,.spec.connection.token&limit=1",
			"?sortBy=.spec.password,.spec.connection.kubeconfig", "?managedFields=true&limit=5&name=" + name} {
			r, err := a.do(t.Context(), http.MethodGet, path+query, nil)
			if err != nil || r.code != http.StatusOK {
				t.Errorf("%s%s: %d %s %v", path, query, r.code, clip(r.body), err)
			}
			for _, s := range secrets {
				if strings.Contains(r.body, s) {
					t.Errorf("%s%s has %s: %s", path, query, s, clip(r.body))
				}
			}
		}
		lines, _ := a.lines(t, path+"?watch=true&name="+name)
		until(t, "the watch", lines, func(l string) bool {
			for _, s := range secrets {
				if strings.Contains(l, s) {
					t.Errorf("the watch of %s has %s", path, s)
				}
			}
			return strings.Contains(l, `"name":"`+name+`"`)
		})
		for _, q := range []string{"fieldSelector=spec.connection.token%3D" + canary, "cel=has(object.spec.password)",
			"cel=has(object.spec.connection)%20%26%26%20has(object.spec.connection.kubeconfig)"} {
			if err := a.shows(path+"?"+q, nil)(t.Context()); err != nil {
				t.Errorf("data is asked about: %v", err)
			}
		}
	}
}

// D13 of the console's findings: Tables of the whole cluster show how many fields a Secret has. JSON has none of them.
func TestD13TablesOfTheClusterCountTheKeysOfData(t *testing.T) {
	s, name, other := newSecretive(t), unique("counter"), unique("lister")
	read := []string{"get", "list", "watch"}
	counter := withRole(t, name, obj{"rules": []rule{{[]string{""}, kindsWithData, read}}})
	lister := withRole(t, other, obj{"rules": []rule{{[]string{"resources.kubesphere.io"}, kindsWithData, read}}})
	const table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
	for kind, row := range map[string]string{"secrets": `"cells":["one","Opaque",1,`, "configmaps": `"cells":["one",2,`} {
		q := "/" + kind + "?labelSelector=marker%3D" + s.marker
		for _, path := range []string{kapis + q, "/kapi/v1" + q, kapis + q + "&fields=.metadata.name,.data,.binaryData",
			kapis + q + "&limit=1&sortBy=name&ascending=true", "/kapi/v1" + q + "&includeObject=Object"} {
			eventually(t, "the counter sees "+path, counter.has(path, `"name":"one"`))
			bare(t, path, counter.must(t, http.StatusOK, http.MethodGet, path, nil).body)
			r := counter.must(t, http.StatusOK, http.MethodGet, path, nil, table)
			if bare(t, path+" as a Table", r.body); !strings.Contains(r.body, row) {
				t.Errorf("a row of %s does not say how many: %s", path, r.body)
			}
		}
		for _, more := range []string{"", "&fields=.data", "&limit=1", "&managedFields=true&limit=1", "&facets=.data"} {
			eventually(t, "the lister sees "+kind, lister.has(kapis+q, `"name":"one"`))
			r, err := lister.do(t.Context(), http.MethodGet, kapis+q+more, nil)
			if err != nil {
				t.Fatal(err)
			}
			bare(t, more, r.body)
		}
		if r := lister.must(t, http.StatusOK, http.MethodGet, kapis+q, nil, table); !strings.Contains(r.body, `"<hidden>"`) {
			t.Errorf("a row says how many: %s", r.body)
		}
		lister.must(t, http.StatusForbidden, http.MethodGet, "/kapi/v1"+q, nil)
	}
}

// The console sends the item of a list back as a merge patch, where a user edits what a Secret is called.
func TestD13WhatAListShowsIsWrittenBackWithoutLoss(t *testing.T) {
	a, s := admin(t), newSecretive(t)
	for _, kind := range kindsWithData {
		one := s.api() + "/" + kind + "/one"
		data := func() string {
			o := decode[obj](t, a.must(t, http.StatusOK, http.MethodGet, one, nil).body)
			return fmt.Sprint(o["data"], o["binaryData"])
		}
		before := data()
		for i, root := range []string{kapis, "/kapi/v1"} {
			items := decode[struct{ Items []map[string]any }](t, a.must(t, http.StatusOK, http.MethodGet,
				root+"/"+kind+"?fieldSelector=metadata.name%3Done&labelSelector=marker%3D"+s.marker, nil).body).Items
			if len(items) != 1 {
				t.Fatalf("%s lists %v", root, items)
			}
			meta := items[0]["metadata"].(map[string]any)
			for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
				delete(meta, field)
			}
			meta["annotations"] = obj{"kubesphere.io/alias-name": fmt.Sprint("called-", i)}
			r := a.must(t, http.StatusOK, http.MethodPatch, one, items[0], "Content-Type: application/merge-patch+json")
			if !strings.Contains(r.body, fmt.Sprint("called-", i)) {
				t.Errorf("the patch of %s changes nothing: %s", one, clip(r.body))
			}
			if after := data(); after != before {
				t.Errorf("an item of %s/%s was written back: the data was %s, and is %s", root, kind, before, after)
			}
		}
	}
}
