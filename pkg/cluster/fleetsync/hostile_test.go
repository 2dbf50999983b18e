package fleetsync_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/store"
)

// endless writes for ever, after a beginning.
func endless(w http.ResponseWriter, begin string) {
	_, err := io.WriteString(w, begin)
	for part := strings.Repeat(" ", 1<<16); err == nil; {
		_, err = io.WriteString(w, part)
	}
}

// F17, F39: a member that lies about what it has, or about whom it binds, gets nothing that it is not to have, has no end of nothing read, and
// does not count as told.
func TestAMemberThatLies(t *testing.T) {
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	for name, lie := range map[string]func(w http.ResponseWriter, r *http.Request) (lied bool){
		"HTML": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>")
			return true
		},
		"Redirect": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "https://member/elsewhere", http.StatusTemporaryRedirect)
			return true
		},
		"Unauthorized": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		},
		"EndlessUsers": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == fleetsync.PathBound {
				endless(w, `{"users":[`)
			}
			return r.URL.Path == fleetsync.PathBound
		},
		"TooManyUsers": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == fleetsync.PathBound {
				_, _ = io.WriteString(w, `{"users":["a"`+strings.Repeat(`,"a"`, 100_000)+`]}`)
			}
			return r.URL.Path == fleetsync.PathBound
		},
		"EndlessWants": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == fleetsync.PathDigest {
				endless(w, `{"want":[`)
			}
			return r.URL.Path == fleetsync.PathDigest
		},
		"TheWrongKind": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == fleetsync.PathDigest {
				_, _ = io.WriteString(w, `[1]`)
			}
			return r.URL.Path == fleetsync.PathDigest
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the hub waits before it asks again
			by := linktest.NewAuthority(t)
			members := &cluster.Members{Identity: by.Hub(t), Host: "host", Now: time.Now}
			members.Follow = (&fleetsync.Syncer{Source: fleetsync.NewSource(noCaches{}), Hub: hub, Current: members.ByUID, Known: func() error { return nil }}).Follow
			members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"` + uid + `"},"spec":{"enable":true}}`)})
			lied := make(chan struct{}, 64)
			by.Link(t, members, uid, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" || r.URL.Path == fleetsync.PathObjects {
					t.Errorf("it is asked for %s", r.URL.Path)
				}
				if lie(w, r) {
					lied <- struct{}{}
					return
				}
				_, _ = io.WriteString(w, `{}`)
			}))
			<-lied
			<-lied // the hub has read the first lie, and asks again
			m := members.ByName("m1")
			if synced, _ := m.Synced(); synced || m.Binds("a") {
				t.Errorf("it counts as told: %v, and binds %v", synced, m.Binds("a"))
			}
		})
	}
}

// F17: a member that asks for what it is not to have gets nothing.
func TestAMemberThatWantsMore(t *testing.T) {
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	by := linktest.NewAuthority(t)
	told := make(chan struct{}, 8)
	members := &cluster.Members{Identity: by.Hub(t), Host: "host", Now: time.Now, Told: func(m *cluster.Member) {
		if synced, _ := m.Synced(); synced {
			told <- struct{}{}
		}
	}}
	members.Follow = (&fleetsync.Syncer{Source: fleetsync.NewSource(noCaches{}), Hub: hub, Current: members.ByUID, Known: func() error { return nil }}).Follow
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"` + uid + `"},"spec":{"enable":true}}`)})
	pending := make([]cluster.Pending, 5000)
	for i := range pending {
		pending[i] = cluster.Pending{Kind: "users", Name: fmt.Sprint(i)}
	}
	raw, err := json.Marshal(fleetsync.Difference{Pending: pending, Want: []fleetsync.Ref{{Kind: "users", Name: "admin"}, {Kind: "secrets", Name: "x"}, {}}})
	if err != nil {
		t.Fatal(err)
	}
	by.Link(t, members, uid, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case fleetsync.PathObjects:
			t.Error("it gets objects")
		case fleetsync.PathDigest:
			_, _ = w.Write(raw)
		default:
			_, _ = io.WriteString(w, `{"version":"v9","kubernetesVersion":"v9"}`)
		}
	}))
	<-told
	m := members.ByName("m1")
	if _, got := m.Synced(); len(got) != 1000 || m.About().Version != "v9" {
		t.Errorf("%d of what it says is pending are kept, and it is %+v", len(got), m.About())
	}
}
