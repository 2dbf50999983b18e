package proxy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// F16, F18: what is read for a user is asked as Members asks: who asks is told, by this server alone, and nothing that they log in with.
func TestAMemberIsReadAsItsCaller(t *testing.T) {
	var got *http.Request
	f := newFleet(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Set-Cookie", "canary=1")
		_, _ = io.WriteString(w, "read")
	})
	i := &request.Info{Verb: "list", Cluster: "m1", Path: "/kapi/v1/pods", IsResource: true}
	h := http.Header{"Accept": {"application/json"}, "Authorization": {"canary"}, "Cookie": {"canary"}, "X-Remote-User": {"canary"},
		"X-Remote-Extra-Scope": {"canary"}, "Impersonate-User": {"canary"}, "If-None-Match": {"tag"}}
	resp, err := MemberReader{f.members.ByName}.Read(t.Context(), person, allowed, i, "limit=1&x=%2F", h)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if _ = resp.Body.Close(); err != nil || string(body) != "read" || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("%q %v %v", body, resp.Header, err)
	}
	if got.Method != http.MethodGet || got.URL.Path != i.Path || got.URL.RawQuery != "limit=1&x=%2F" || got.Header.Get("If-None-Match") != "tag" ||
		got.Header.Get("X-Remote-User") != "ann" || got.Header.Get("X-Remote-Uid") != "u-ann" || strings.Join(got.Header["X-Remote-Group"], " ") != "dev" {
		t.Errorf("%s %s ? %s, %v", got.Method, got.URL.Path, got.URL.RawQuery, got.Header)
	}
	for name, values := range got.Header {
		if strings.Contains(strings.Join(values, " "), "canary") {
			t.Errorf("%s: %v", name, values)
		}
	}
	if h.Get("Cookie") == "" {
		t.Error("the headers of the caller of Read were changed")
	}
	caller := MemberReader{}.Caller(person)
	for name, values := range caller {
		if strings.Join(got.Header[name], " ") != strings.Join(values, " ") {
			t.Errorf("%s is said to be %v, and was %v", name, values, got.Header[name])
		}
	}
	// F47: a member knows no scope of a cluster, and what is sent there is within it.
	for scope, told := range map[string]bool{"read": true, "cluster:m1": false} {
		h := MemberReader{}.Caller(&user.DefaultInfo{Name: "kubeconfig:m1", UID: "1", Extra: map[string][]string{authz.ExtraScope: {scope}}})
		if got := len(h["X-Remote-Extra-Scope"]) > 0; h["X-Remote-User"][0] != "kubeconfig:m1" || got != told {
			t.Errorf("the scope %q: %v", scope, h)
		}
	}
	nobody := (MemberReader{}).Caller(&user.DefaultInfo{Name: "system:admin", UID: "1"})
	if len(caller) != 3 || nobody != nil || (MemberReader{}).Caller(&user.DefaultInfo{Name: "ann"}) != nil {
		t.Errorf("%v", caller)
	}
}

// F19: what can't be read has the code that Members would answer with.
func TestWhatCanNotBeReadHasItsCode(t *testing.T) {
	asked := 0
	f := newFleet(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/kapi/v1/a":
			w.WriteHeader(http.StatusUnauthorized)
		case "/kapi/v1/b":
			http.Redirect(w, r, "https://elsewhere.example", http.StatusFound)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	})
	read := func(u user.Info, d authz.Decision, i *request.Info) (code int32) {
		resp, err := MemberReader{f.members.ByName}.Read(t.Context(), u, d, i, "", nil)
		if err == nil {
			_ = resp.Body.Close()
			return int32(resp.StatusCode) //nolint:gosec // a code
		}
		raw, _ := json.Marshal(apierrors.ReasonForError(err))
		if api, is := err.(apierrors.APIStatus); is { //nolint:errorlint // as it is
			return api.Status().Code
		}
		t.Logf("%v %s", err, raw)
		return 0
	}
	for path, want := range map[string]int32{"/kapi/v1/a": 511, "/kapi/v1/b": 502, "/kapi/v1/c": 403} {
		if code := read(person, allowed, &request.Info{Cluster: "m1", Path: path}); code != want {
			t.Errorf("%s: %d", path, code)
		}
	}
	before := asked
	for what, code := range map[string]int32{
		"not allowed": read(person, authz.Decision{}, &request.Info{Cluster: "m1", Path: "/kapi/v1/c"}),
		"no user":     read(nil, allowed, &request.Info{Cluster: "m1", Path: "/kapi/v1/c"}),
	} {
		if code != 0 {
			t.Errorf("%s: %d", what, code)
		}
	}
	if code := read(&user.DefaultInfo{Name: "system:admin", UID: "1"}, allowed, &request.Info{Cluster: "m1", Path: "/kapi/v1/c"}); code != 403 {
		t.Errorf("nobody of the fleet: %d", code)
	}
	f.set(corev1.ConditionFalse, "why")
	if code := read(person, allowed, &request.Info{Cluster: "m1", Path: "/kapi/v1/c"}); code != 503 {
		t.Errorf("a member that is not ready: %d", code)
	}
	if asked != before {
		t.Error("what was not allowed was sent")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.set(corev1.ConditionTrue, "")
	if resp, err := (MemberReader{f.members.ByName}).Read(ctx, person, allowed, &request.Info{Cluster: "m1", Path: "/kapi/v1/c"}, "", nil); err == nil {
		_ = resp.Body.Close()
		t.Error("it is read for nobody")
	}
}
