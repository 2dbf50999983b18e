package filter_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/filter"
)

// F15: an event of a member about a request that came over a link names the event of the hub about it, and has an id of its own, which goes on to
// the member's kube-apiserver: who chose the id could hide one request in the events of another.
func TestAnEventOfAMemberNamesThatOfItsHub(t *testing.T) {
	const uid, id = "0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"
	recorded, passed := make(chan auditv1.Event, 1), ""
	sink := audit.SinkFunc(func(e *audit.Event) {
		one := &events{t: t}
		one.Record(e)
		recorded <- one.all[0]
	})
	h := filter.Chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed = r.Header.Get("Audit-Id")
		_, _ = io.WriteString(w, "ok")
	}), filter.Auditing{Sink: sink, Now: time.Now}.Wrap, filter.Info)
	by := linktest.NewAuthority(t)
	hub, member := linktest.Pair(t)
	go func() { _ = (&link.Handler{Identity: by.Member(t, uid), Handler: h}).Serve(t.Context(), member, 0) }()
	l, err := link.Open(t.Context(), hub, uid, by.Hub(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for header, want := range map[string]string{id: id, "hide": "", "": ""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://member/api/v1/pods", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Audit-Id", header)
		resp, err := l.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		e := <-recorded
		if e.Annotations["kapis.dev/hub-audit-id"] != want || e.AuditID == "" || string(e.AuditID) == header || passed != string(e.AuditID) {
			t.Errorf("%q: the event %q has %v, and what is caused %q", header, e.AuditID, e.Annotations, passed)
		}
	}
	sent(t, h, "/api/v1/pods", "Audit-Id: "+id)
	if e := <-recorded; len(e.Annotations) > 0 && e.Annotations["kapis.dev/hub-audit-id"] != "" {
		t.Errorf("a client that is no hub names its event: %v", e.Annotations)
	}
}
