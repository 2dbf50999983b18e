package fleetsync_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/store"
)

// F17, F29: a member that says three times in a row that its kube-apiserver is not well, or answers nothing of use, is degraded, and not any more after one
// answer; how often it changes its words changes nothing, and one of an older release, which does not say, is not degraded.
func TestAMemberWhoseKubeAPIServerIsDownIsDegraded(t *testing.T) {
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	by := linktest.NewAuthority(t)
	var asked atomic.Int64
	told, answers := make(chan string, 64), make(chan string)
	members := &cluster.Members{Identity: by.Hub(t), Host: "host", Now: time.Now, Told: func(m *cluster.Member) {
		told <- fmt.Sprint(asked.Load(), " ", m.Degraded())
	}}
	members.Follow = fleetsync.Prober{Every: time.Millisecond, Again: time.Millisecond}.Follow
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"` + uid + `"},"spec":{"enable":true}}`)})
	by.Link(t, members, uid, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != fleetsync.PathHealth {
			t.Errorf("it is asked for %s %s", r.Method, r.URL.Path)
		}
		select {
		case text := <-answers:
			asked.Add(1)
			if text == "404" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = io.WriteString(w, text)
		case <-r.Context().Done():
		}
	}))
	const well, bad, other = `{}`, `{"kubeAPIServer":"does not answer"}`, `{"kubeAPIServer":"is not ready (etcd)"}`
	for _, x := range []struct {
		answers []string
		want    string // the count of answers then, and what is said
	}{
		{[]string{well, bad, bad, well, bad, other, bad}, "7 its kube-apiserver does not answer, so that"},
		{[]string{other, bad, well}, "10 "},
		{[]string{"<html>", "[]", strings.Repeat(" ", 1<<20)}, "13 its ks-apiserver does not answer"},
		{[]string{"404"}, "14 "},
		{[]string{`{"kubeAPIServer":"` + strings.Repeat("é", 1000) + `"}`, bad, other}, "17 its kube-apiserver is not ready (etcd), so that"},
	} {
		for _, text := range x.answers {
			answers <- text
		}
		if got := <-told; !strings.HasPrefix(got, x.want) || len(got) > 512 || strings.HasSuffix(x.want, " ") && got != x.want {
			t.Errorf("%.40q: it is %q, want %q", x.answers, got, x.want)
		}
	}
}
