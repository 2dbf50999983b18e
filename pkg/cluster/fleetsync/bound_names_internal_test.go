package fleetsync

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/store"
)

// F17: a member says which groups its bindings name, and which users they name in the whole cluster. What it said before counts where it fails to say it, or
// says more than is kept; of one of an older release, which does not know the question, each of its users counts.
func TestAMemberSaysWhichNamesItsBindingsHave(t *testing.T) {
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	by := linktest.NewAuthority(t)
	members := &cluster.Members{Identity: by.Hub(t), Host: "host", Now: time.Now}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"` + uid + `"},"spec":{"enable":true}}`)})
	there := &Member{BoundNames: func(context.Context) (*cluster.BoundNames, error) {
		return &cluster.BoundNames{ClusterUsers: []string{"ann"}, Groups: []string{"sre"}}, nil
	}}
	answers := make(chan http.HandlerFunc, 1)
	by.Link(t, members, uid, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Owns(r.URL.Path) {
			t.Errorf("it is asked for %s", r.URL.Path)
		}
		(<-answers)(w, r)
	}))
	m := members.ByName("m1")
	m.SetBound([]string{"ann", "bob"})
	many := make([]string, mostBound+1)
	for i := range many {
		many[i] = fmt.Sprint("g", i)
	}
	says := func(code int, v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(v)
		}
	}
	for _, x := range []struct {
		name   string
		answer http.HandlerFunc
		fails  bool
		want   string
	}{
		{"it says", there.ServeHTTP, false, "ann sre"},
		{"it fails", says(http.StatusServiceUnavailable, nil), true, "ann sre"},
		{"it is busy", says(http.StatusTooManyRequests, nil), true, "ann sre"},
		{"it says nonsense", says(http.StatusOK, "x"), true, "ann sre"},
		{"it says too much", says(http.StatusOK, &cluster.BoundNames{Groups: many}), true, "ann sre"},
		{"its names are too long", says(http.StatusOK, &cluster.BoundNames{Groups: []string{strings.Repeat("g", mostBoundBytes+1)}}), true, "ann sre"},
		{"it does not know the question", says(http.StatusNotFound, nil), false, "ann bob"},
		{"it says nobody", says(http.StatusOK, &cluster.BoundNames{}), false, ""},
	} {
		answers <- x.answer
		if _, err := learnNames(t.Context(), m); (err != nil) != x.fails {
			t.Errorf("%s: %v", x.name, err)
		}
		var got []string
		for _, name := range []string{"ann", "bob"} {
			if members.BindInCluster(name) {
				got = append(got, name)
			}
		}
		if members.BindGroup("sre") {
			got = append(got, "sre")
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}
