package fleetlist

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/request"
)

// pod returns a pod as a member sends it, of about 5.6 KB.
func pod(cluster string, i int) string {
	env := strings.Repeat(`{"name":"SETTING_OF_THE_PROGRAM","value":"what it is set to, and why"},`, 70)
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"pod-%05d","namespace":"bench","uid":"%s-%d","resourceVersion":"7",`+
		`"labels":{"app":"bench"},"annotations":{"owner":"bench"}},"spec":{"containers":[{"name":"c","image":"example/c","env":[%s]}]},`+
		`"status":{"phase":"Running"}}`, i, cluster, i, strings.TrimSuffix(env, ","))
}

// podsOf returns a member that answers each question with its first ten keys, and four of its pods.
func podsOf(cluster string) http.HandlerFunc {
	var rows, items []string
	for i := range 10 {
		key := base64.RawStdEncoding.EncodeToString(fmt.Appendf(nil, "\x03pod-%05d\x00\x01", i))
		rows = append(rows, fmt.Sprintf(`["%s","bench","pod-%05d","%s-%d","7"]`, key, i, cluster, i))
		if i < 4 {
			items = append(items, pod(cluster, i))
		}
	}
	text := fmt.Sprintf(`{"totalItems":10000,"start":0,"metadata":{"resourceVersion":"7"},"rows":[%s],"items":[%s]}`,
		strings.Join(rows, ","), strings.Join(items, ","))
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Etag", `W/"7"`)
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = io.WriteString(w, text)
	}
}

// discarding is a client that counts what it gets.
type discarding struct {
	header      http.Header
	code, bytes int
}

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) WriteHeader(code int)        { d.code = code }
func (d *discarding) Write(p []byte) (int, error) { d.bytes += len(p); return len(p), nil }

// F40: a page of ten over three members that was not asked before, and the three requests that it takes at least, over the same links.
func BenchmarkAPageOfThreeMembers(b *testing.B) {
	names := []string{"m1", "m2", "m3"}
	w := newFleetWorld(b, names...)
	for _, name := range names {
		w.all[name].serves = podsOf(name)
	}
	u := &user.DefaultInfo{Name: "ann", UID: "uid-ann"}
	n := 0
	b.Run("Page", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n++
			r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "/fleet/kapi/v1/pods?limit=10&sortBy=name&ascending=true"+
				"&clusters=m1,m2,m3&memberTimeout=10s&x="+strconv.Itoa(n), nil)
			if err != nil {
				b.Fatal(err)
			}
			info, err := request.Parse(r)
			if err != nil {
				b.Fatal(err)
			}
			out := &discarding{header: http.Header{}}
			w.lists.ServeHTTP(out, r.WithContext(request.WithUser(request.WithInfo(b.Context(), info), u)))
			if out.code != http.StatusOK || out.bytes < 50_000 || out.header.Get("X-Kapis-Clusters-Missing") != "" {
				b.Fatal(out.code, out.bytes, out.header)
			}
		}
	})
	b.Run("ThreeRequests", func(b *testing.B) {
		b.ReportAllocs()
		bare := func(m *cluster.Member) {
			r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "https://member/kapi/v1/pods?limit=10", nil)
			if err != nil {
				b.Error(err)
				return
			}
			resp, err := m.RoundTrip(r)
			if err != nil {
				b.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < 20_000 {
				b.Error(n, err)
			}
		}
		for b.Loop() {
			var wait sync.WaitGroup
			for _, name := range names {
				wait.Go(func() { bare(w.members.ByName(name)) })
			}
			wait.Wait()
		}
	})
}
