package registry

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestDockerHubIsSearchedWithoutAnAccount(t *testing.T) {
	w := newWorld(t, "open", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/search" || r.URL.Query().Get("q") != "ng inx&x" || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"num_results":4000,"results":[{"name":"nginx"},{"name":"team/nginx"}]}`)
	}))
	c := reaching(t, Options{AllowLoopback: true, Hub: w.URL})
	for name, creds := range map[string]*Credentials{"none": {}, "its own": {accounts: map[string]Account{dockerHub: ann}}} {
		got, err := c.Search(t.Context(), "ng inx&x", creds)
		if err != nil || got.Total != 4000 || fmt.Sprint(got.Entries) != "[nginx team/nginx]" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestAHarborIsSearchedWithItsAccount(t *testing.T) {
	w := newWorld(t, "basic", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		if r.URL.Path != "/api/v2.0/search" || r.URL.Query().Get("q") != "app" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{"project":[],"repository":[{"repository_name":"team/app"},{"repository_name":"x/app2"}]}`)
	}))
	got, err := local(t).Search(t.Context(), "app", w.creds(ann))
	if err != nil || got.Total != 2 || fmt.Sprint(got.Entries) != "[team/app x/app2]" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = local(t).Search(t.Context(), "app", w.creds(Account{"ann", "wrong"}))
	is(t, err, 400, "refuses the credentials")
}

func TestWhatIsNoHarborCannotBeSearched(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"not found": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v2/" {
				w.WriteHeader(http.StatusNotFound)
			}
		},
		"a page":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>internal-answer") },
		"other members": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"a":"internal-answer"}`) },
	} {
		_, err := local(t).Search(t.Context(), "app", newWorld(t, "open", h).creds(ann))
		is(t, err, 404, "can't be searched")
		_ = name
	}
	two := &Credentials{accounts: map[string]Account{"a.example.com": ann, "b.example.com": ann}}
	_, err := local(t).Search(t.Context(), "app", two)
	is(t, err, 400, "2 registries")
	_, err = local(t).Search(t.Context(), strings.Repeat("a", maxName+1), two)
	is(t, err, 400, "at most")
}

func TestASearchReturnsABoundedNumber(t *testing.T) {
	w := newWorld(t, "open", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"num_results":1,"results":[{"name":"a"}`+strings.Repeat(`,{"name":"b"}`, 500)+`]}`)
	}))
	got, err := reaching(t, Options{AllowLoopback: true, Hub: w.URL}).Search(t.Context(), "a", &Credentials{})
	if err != nil || len(got.Entries) != maxFound || got.Total != maxFound {
		t.Errorf("%d of %d, %v", len(got.Entries), got.Total, err)
	}
}
