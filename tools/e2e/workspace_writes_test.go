package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

const workspaceLabel = "kubesphere.io/workspace"

func TestWritesInAWorkspaceStayInIt(t *testing.T) { // S7
	proves(t, "S7")
	a := admin(t)
	version, root := newWidgets(t, "Cluster")
	mine, theirs := unique("mine"), unique("theirs")
	in := func(w string) string { return "/kapis" + root + "/workspaces/" + w + "/widgets" }
	at := "/apis" + root + "/widgets/"
	widget := func(name string, labels obj) obj {
		return obj{"apiVersion": version, "kind": "Widget", "metadata": obj{"name": name, "labels": labels}, "spec": obj{"replicas": 1}}
	}
	if got := a.write(t, http.MethodPost, in(mine), widget("m", nil)); got.Metadata.Labels[workspaceLabel] != mine {
		t.Errorf("made %+v", got)
	}
	a.must(t, http.StatusOK, http.MethodPost, in(theirs), widget("t", obj{"app": "x"}))
	a.must(t, http.StatusCreated, http.MethodPost, strings.TrimSuffix(at, "/"), widget("nobodys", nil))
	a.must(t, http.StatusBadRequest, http.MethodPost, in(mine), widget("x", obj{workspaceLabel: theirs}))

	t.Run("all kinds of writes", func(t *testing.T) {
		for _, c := range []struct{ method, path, body, header string }{
			{http.MethodPut, "/m", encode(t, widget("m", obj{"n": "1"})), "X: y"},
			{http.MethodPatch, "/m", `{"metadata":{"labels":{"n":"2"}}}`, asMerge},
			{http.MethodPatch, "/m", `[{"op":"add","path":"/metadata/labels/n","value":"3"}]`, asMerge},
			{http.MethodPatch, "/m", `[{"op":"add","path":"/metadata/labels","value":{"n":"4","kubesphere.io/workspace":"` + mine + `"}}]`, asJSONPatch},
			{http.MethodPatch, "/m?fieldManager=e&force=true", encode(t, widget("m", obj{"n": "5"})), asApply},
			{http.MethodPatch, "/m/status", `{"status":{"phase":"x"}}`, asMerge},
			{http.MethodPatch, "/m/status", `[{"op":"add","path":"/status/phase","value":"y"}]`, asJSONPatch},
			{http.MethodPut, "/m/status", encode(t, widget("m", nil)), "X: y"},
		} {
			if got := a.write(t, c.method, in(mine)+c.path, c.body, c.header); got.Metadata.Labels[workspaceLabel] != mine {
				t.Errorf("%s %s: %+v", c.method, c.body, got)
			}
		}
		for _, c := range []struct{ body, header string }{{`{"spec":{"replicas":2}}`, asMerge},
			{`[{"op":"replace","path":"/spec/replicas","value":3}]`, asJSONPatch}} {
			if got := a.write(t, http.MethodPatch, in(mine)+"/m/scale", c.body, c.header); got.Kind != "Scale" {
				t.Errorf("scale: %+v", got)
			}
		}
	})
	t.Run("applying creates, and takes nothing over", func(t *testing.T) {
		got := a.write(t, http.MethodPatch, in(mine)+"/applied?fieldManager=e", encode(t, widget("applied", nil)), asApply)
		if got.Metadata.Labels[workspaceLabel] != mine {
			t.Errorf("%+v", got)
		}
		a.must(t, http.StatusOK, http.MethodDelete, in(mine)+"/applied", nil)
	})
	t.Run("what is another workspace's, or nobody's, is not there and stays untouched", func(t *testing.T) {
		for _, name := range []string{"t", "nobodys"} {
			before := a.must(t, http.StatusOK, http.MethodGet, at+name, nil).body
			for _, c := range []struct{ method, path, body, header string }{
				{http.MethodPut, "", encode(t, widget(name, nil)), "X: y"},
				{http.MethodPatch, "", `{"metadata":{"labels":{"n":"2"}}}`, asMerge},
				{http.MethodPatch, "", `[{"op":"add","path":"/metadata/annotations","value":{}}]`, asMerge},
				{http.MethodPatch, "?fieldManager=e&force=true", encode(t, widget(name, nil)), asApply},
				{http.MethodPatch, "/status", `{"status":{"phase":"x"}}`, asMerge},
				{http.MethodPatch, "/scale", `{"spec":{"replicas":7}}`, asMerge},
				{http.MethodDelete, "", "{}", "X: y"},
				{http.MethodGet, "/status", "", "X: y"},
			} {
				a.must(t, http.StatusNotFound, c.method, in(mine)+"/"+name+c.path, c.body, c.header)
			}
			a.must(t, http.StatusOK, http.MethodDelete, in(mine)+"?labelSelector=app%3Dx", nil)
			if after := a.must(t, http.StatusOK, http.MethodGet, at+name, nil).body; after != before {
				t.Errorf("it was %s and is %s", before, after)
			}
		}
	})
	t.Run("nothing leaves by its label", func(t *testing.T) {
		for _, c := range []struct{ body, header string }{
			{`{"metadata":{"labels":{"kubesphere.io/workspace":"` + theirs + `"}}}`, asMerge},
			{`{"metadata":{"labels":{"kubesphere.io/workspace":null}}}`, asMerge},
			{`[{"op":"remove","path":"/metadata/labels"}]`, asMerge},
			{encode(t, widget("m", obj{workspaceLabel: theirs})), asApply},
		} {
			a.must(t, http.StatusBadRequest, http.MethodPatch, in(mine)+"/m?fieldManager=e", c.body, c.header)
		}
		if got := decode[written](t, a.must(t, http.StatusOK, http.MethodGet, at+"m", nil).body); got.Metadata.Labels[workspaceLabel] != mine {
			t.Errorf("%+v", got)
		}
	})
	t.Run("writes at the same time don't lose each other", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				r, err := a.do(t.Context(), http.MethodPatch, in(mine)+"/m", fmt.Sprintf(`{"metadata":{"annotations":{"n%d":"y"}}}`, i), asMerge)
				if err != nil || r.code != http.StatusOK {
					t.Errorf("%d %s %v", r.code, clip(r.body), err)
				}
			})
		}
		all.Wait()
		if got := decode[written](t, a.must(t, http.StatusOK, http.MethodGet, at+"m", nil).body); len(got.Metadata.Annotations) != 4 {
			t.Errorf("%v", got.Metadata.Annotations)
		}
	})
	a.must(t, http.StatusOK, http.MethodDelete, in(mine), nil)
	if l := a.list(t, strings.TrimSuffix(at, "/")); len(l.Items) != 2 {
		t.Errorf("left are %v", l.names())
	}
}

// An applied configuration with the version that no object has creates an object, and changes none:
// kube-apiserver's part in what applying in a workspace relies on.
func TestTheVersionThatNoObjectHasGuardsAnApply(t *testing.T) {
	a := admin(t)
	version, root := newWidgets(t, "Cluster")
	for path, object := range map[string]obj{
		"/apis" + root + "/widgets/g": {"apiVersion": version, "kind": "Widget", "metadata": obj{"name": "g", "resourceVersion": "1"}},
		"/api/v1/namespaces/guarded":  {"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": "guarded", "resourceVersion": "1"}},
	} {
		a.must(t, http.StatusCreated, http.MethodPatch, path+"?fieldManager=e&force=true", object, asApply)
		a.must(t, http.StatusConflict, http.MethodPatch, path+"?fieldManager=e&force=true", object, asApply)
		a.must(t, http.StatusOK, http.MethodDelete, path, nil)
	}
}

func TestANamespaceOfAWorkspaceIsWrittenInThere(t *testing.T) {
	a, mine, theirs, ns := admin(t), unique("mine"), unique("theirs"), unique("in")
	in := func(w string) string { return "/kapi/v1/workspaces/" + w + "/namespaces" }
	if got := a.write(t, http.MethodPost, in(mine), obj{"apiVersion": "v1", "kind": "Namespace",
		"metadata": obj{"name": ns}}); got.Metadata.Labels[workspaceLabel] != mine {
		t.Errorf("made %+v", got)
	}
	object := obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "c"}}
	var made written
	eventually(t, "the namespace is known to be the workspace's", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodPost, in(mine)+"/"+ns+"/configmaps", object)
		if err != nil || r.code != http.StatusOK {
			return fmt.Errorf("%d %s %w", r.code, clip(r.body), err)
		}
		made = decode[written](t, r.body)
		return nil
	})
	if made.Metadata.Labels != nil {
		t.Errorf("labelled %v", made.Metadata.Labels)
	}
	a.must(t, http.StatusOK, http.MethodPatch, in(mine)+"/"+ns+"/configmaps/c", `{"data":{"a":"b"}}`, asMerge)
	a.must(t, http.StatusNotFound, http.MethodPatch, in(theirs)+"/"+ns+"/configmaps/c", `{"data":{"a":"c"}}`, asMerge)
	a.must(t, http.StatusNotFound, http.MethodDelete, in(theirs)+"/"+ns+"/configmaps/c", nil)
	a.must(t, http.StatusNotFound, http.MethodDelete, in(theirs)+"/"+ns, nil)
	a.must(t, http.StatusBadRequest, http.MethodPatch, in(mine)+"/"+ns, `{"metadata":{"labels":{"kubesphere.io/workspace":"`+theirs+`"}}}`, asMerge)
	a.must(t, http.StatusBadRequest, http.MethodPost, "/kapi/v1/workspaces/"+mine+"/configmaps", object)
	a.must(t, http.StatusOK, http.MethodDelete, in(mine)+"/"+ns+"/configmaps/c", nil)
	a.must(t, http.StatusOK, http.MethodDelete, in(mine)+"/"+ns, nil)
}
