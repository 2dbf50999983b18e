package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// counted is the form of a list of resources.kubesphere.io/v1alpha2.
type counted struct {
	Items []struct {
		Metadata struct{ Name, Namespace string }
	} `json:"items"`
	Total *int `json:"total_count"`
}

func (c counted) keys() []string {
	out := []string{}
	for _, i := range c.Items {
		out = append(out, i.Metadata.Namespace+"/"+i.Metadata.Name)
	}
	return out
}

// Lists as a console and scripts of release 3.4 send them: native objects, oldest first, ten on a page; and by the same rights as the
// lists of today.
func TestListsOfOlderClients(t *testing.T) { // O24, O28, O41
	p, a := newParted(t), admin(t)
	all := older + "/namespaces/" + p.c + "/pods"
	eventually(t, "the pods are in the cache", a.has(all, `"total_count":6`))
	for _, c := range []struct{ query, want string }{
		{"?orderBy=name&paging=limit%3D2%2Cpage%3D2", "foreign-2 foreign-3"},
		{"?conditions=name~gn-5", "foreign-5"},
		{"?conditions=parts=true,name=foreign-1|foreign-2&orderBy=name&reverse=true", "foreign-2 foreign-1"},
		{"?conditions=in~" + p.c + "&orderBy=name&limit=3&start=3", "foreign-3 foreign-4 foreign-5"},
		{"?conditions=in=none", ""},
	} {
		got := decode[counted](t, a.must(t, http.StatusOK, http.MethodGet, all+c.query, nil).body)
		var want []string
		for _, name := range strings.Fields(c.want) {
			want = append(want, p.c+"/"+name)
		}
		if !slices.Equal(got.keys(), append([]string{}, want...)) || got.Total == nil {
			t.Errorf("%s: %v, want %v", c.query, got.keys(), want)
		}
	}
	for path, code := range map[string]int{
		older + "/pods?conditions=x":                   http.StatusBadRequest,
		older + "/pods?limit=ten":                      http.StatusBadRequest,
		older + "/pods?orderBy=.spec":                  http.StatusBadRequest,
		older + "/unicorns":                            http.StatusNotFound,
		older + "/namespaces/" + p.c + "/nodes":        http.StatusNotFound,
		older + "/namespaces/" + p.c + "/router":       http.StatusNotFound,
		older + "/pods?watch=true":                     http.StatusMethodNotAllowed,
		older + "/namespaces/" + p.c + "/../pods":      http.StatusBadRequest,
		older + "/namespaces/" + p.c + "%2fpods/pods":  http.StatusBadRequest,
		older + "/namespaces/" + p.c + "/pods/x":       http.StatusNotFound,
		"/clusters/host" + older + "/nodes?limit=1":    http.StatusOK,
		"/clusters/nowhere" + older + "/nodes?limit=1": http.StatusBadRequest,
	} {
		a.must(t, code, http.MethodGet, path, nil)
	}

	step(t, "a viewer of two namespaces gets those two", func(t *testing.T) {
		want := append(slices.Clone(p.pods[p.a]), p.pods[p.b]...)
		slices.Sort(want)
		eventually(t, "the partial list", func(ctx context.Context) error {
			r, err := p.user.do(ctx, http.MethodGet, older+"/pods?limit=-1", nil)
			if err != nil {
				return err
			}
			var l counted
			if err := json.Unmarshal([]byte(r.body), &l); err != nil || r.header.Get(partial) != "true" || l.Total == nil || *l.Total != len(want) {
				return fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			got := l.keys()
			if slices.Sort(got); !slices.Equal(got, want) {
				return fmt.Errorf("%v, want %v", got, want)
			}
			return nil
		})
		for _, query := range []string{"?conditions=name~foreign", "?conditions=in=" + p.c, "?conditions=nodeName=x", "?conditions=label~" + p.c} {
			p.clean(t, query, p.user.must(t, http.StatusOK, http.MethodGet, older+"/pods"+query, nil).body)
		}
		for _, path := range []string{all, all + "?conditions=name~own", older + "/namespaces/" + p.c + "/secrets", older + "/nodes", older + "/secrets",
			"/clusters/host" + all} {
			p.user.must(t, http.StatusForbidden, http.MethodGet, path, nil)
		}
		anonymous().must(t, http.StatusForbidden, http.MethodGet, older+"/pods", nil)
	})

	step(t, "a rule for these routes alone opens no Secret", func(t *testing.T) {
		ns, name := newNamespace(t), unique("reader")
		a.create(t, "/api/v1/namespaces/"+ns+"/secrets", map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"}, "stringData": map[string]any{"key": "canary-of-older-lists"},
		})
		reader := newUser(t, name)
		role(t, ns, "reader", rule{[]string{"resources.kubesphere.io"}, []string{"secrets"}, []string{"get", "list"}})
		bind(t, ns, "reader", map[string]any{"kind": "User", "name": name})
		path := older + "/namespaces/" + ns + "/secrets"
		eventually(t, "the role counts", reader.has(path, `"name":"s"`))
		if body := reader.must(t, http.StatusOK, http.MethodGet, path, nil).body; strings.Contains(body, `"data"`) {
			t.Errorf("data is shown: %s", clip(body))
		}
		if body := a.must(t, http.StatusOK, http.MethodGet, path, nil).body; !strings.Contains(body, `"data"`) {
			t.Errorf("the admin lacks the data: %s", clip(body))
		}
	})
}
