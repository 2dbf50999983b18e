package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/web"
)

// deadlines records the deadlines that are set.
type deadlines struct {
	http.ResponseWriter
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

func TestALongAnswerHasADeadlineWhichTheNextOneDoesNotInherit(t *testing.T) {
	for name, x := range map[string]struct {
		major int
		bytes int64
		least time.Duration // 0 for no deadline
		stays bool
	}{
		"ShortByHTTP1": {major: 1, bytes: 1 << 10},
		"LongByHTTP1":  {major: 1, bytes: 3 << 20, least: 4 * time.Minute},
		"ShortByHTTP2": {major: 2, bytes: 1 << 10, least: time.Minute, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &deadlines{ResponseWriter: httptest.NewRecorder()}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.ProtoMajor = x.major
			before := time.Now()
			remove := web.WriteDeadline(w, r, x.bytes)
			if x.least == 0 {
				if remove(); len(w.set) != 0 {
					t.Errorf("got deadlines %v, want none", w.set)
				}
				return
			}
			if len(w.set) != 1 || w.set[0].Before(before.Add(x.least)) {
				t.Fatalf("got deadlines %v, want one in %v at least", w.set, x.least)
			}
			if remove(); (len(w.set) == 1) != x.stays || !x.stays && !w.set[1].IsZero() {
				t.Errorf("afterwards: got deadlines %v, want it to stay: %v", w.set, x.stays)
			}
		})
	}
}
