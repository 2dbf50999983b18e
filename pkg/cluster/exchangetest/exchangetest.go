// Package exchangetest has the other end of what a hub and its members exchange: a member that answers as a test says, and what a hub asks.
package exchangetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/store"
)

// Asked is what a member was asked.
type Asked struct {
	Path string
	Body []byte
}

// Member answers its hub, which asks in turn.
type Member struct {
	// Answer is what it answers, as JSON.
	Answer any
	// Refuses is the path that it refuses.
	Refuses string
	// Asked is what it was asked in the last round.
	Asked []Asked
}

// Link links a member to a hub that has one, whose Cluster this is, and returns the hub's members.
func Link(t testing.TB, m *Member, c *clusterv1alpha1.Cluster) *cluster.Members {
	t.Helper()
	by := linktest.NewAuthority(t)
	members := &cluster.Members{Identity: by.Hub(t), Host: "host", Now: time.Now}
	members.Set(&store.Object{Name: c.Name, Raw: JSON(t, c)})
	by.Link(t, members, string(c.UID), m)
	return members
}

// ServeHTTP answers the hub.
func (m *Member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	m.Asked = append(m.Asked, Asked{r.URL.Path, raw})
	if r.URL.Path == m.Refuses {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"message":"this cluster has one of its own"}`)
		return
	}
	if err := json.NewEncoder(w).Encode(m.Answer); err != nil {
		panic(err)
	}
}

// Round runs one round of the hub, and returns for which paths the member was asked.
func (m *Member) Round(t testing.TB, run func(context.Context) (busy bool, err error)) (paths []string) {
	t.Helper()
	m.Asked = nil
	if _, err := run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, a := range m.Asked {
		paths = append(paths, a.Path)
	}
	return paths
}

// Ask asks what answers a hub, and reads the answer into into unless that is nil.
func Ask(t testing.TB, h http.Handler, path string, body []byte, into any) (code int) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body)))
	if rec.Code == http.StatusOK && into != nil {
		if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	return rec.Code
}

// JSON returns a value as JSON.
func JSON(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
