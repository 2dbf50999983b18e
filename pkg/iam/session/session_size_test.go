package session

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/store"
)

// sample returns a session as browsers and clients open it.
func sample(i int) *v1alpha1.Session {
	now := metav1.NewTime(iamtest.Start())
	o := &v1alpha1.Session{Spec: v1alpha1.SessionSpec{
		User:            fmt.Sprint("user", i%500),
		UserUID:         types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012d", i%500)),
		Client:          "kubesphere",
		Scopes:          []string{"openid", "profile", "groups"},
		Credential:      strings.Repeat("c", 64),
		Sequence:        int64(i),
		CreatedAt:       now,
		ExpiresAt:       metav1.NewTime(iamtest.Start().Add(DefaultAbsolute)),
		AuthenticatedAt: now,
		Methods:         []string{iam.MethodPassword},
		Source:          "203.0.113.7",
		UserAgent:       "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
	},
		Refresh: v1alpha1.Refresh{Current: strings.Repeat("a", 64), Previous: strings.Repeat("b", 64), Generation: 7, RotatedAt: now}, LastUsedAt: now}
	o.Name, o.UID, o.Generation = newName(iamtest.Start().Add(time.Duration(i)*time.Millisecond)), types.UID(fmt.Sprintf("9f8e7d6c-0000-4000-8000-%012d", i)), 7
	return o
}

// A session must take less than a kilobyte of memory, although each object repeats the user agent of its browser.
func TestSessionIsSmallInMemory(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	const n = 5000
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range n {
		o := sample(i)
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		r[0].Set(&store.Object{Name: o.Name, Raw: raw})
	}
	per := (heap() - before) / n
	t.Logf("%d bytes a session", per)
	if per > 1024 {
		t.Errorf("%d bytes", per)
	}
	runtime.KeepAlive(r)
}

func BenchmarkAuthenticateInBrowserWithGroups(b *testing.B) {
	_, r := newReplicas(b, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	browser, _, err := r[0].Open(b.Context(), Login{AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice")}})
	if err != nil {
		b.Fatal(err)
	}
	s, _, err := r[0].Open(b.Context(), Login{AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice"), Groups: []string{"dev", "ops"}},
		Client: "harbor", Parent: browser.Name})
	if err != nil {
		b.Fatal(err)
	}
	a := access(s)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r[0].Authenticate(ctx, a); err != nil {
			b.Fatal(err)
		}
	}
}
