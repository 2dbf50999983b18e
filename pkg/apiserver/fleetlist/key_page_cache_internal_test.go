package fleetlist

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
)

// tagging is a cluster with one page, which changes with its tag.
type tagging struct {
	tag, text string
	asked     []string // the tags that it was asked with
}

func (c *tagging) ask(_ context.Context, _ url.Values, h http.Header) (*http.Response, error) {
	tag := h.Get("If-None-Match")
	c.asked = append(c.asked, tag)
	if tag != "" && tag == c.tag {
		return &http.Response{StatusCode: http.StatusNotModified, Header: http.Header{}, Body: http.NoBody}, nil
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Etag": {c.tag}, "Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(c.text))}, nil
}

// F36: a page of keys that has not changed does not travel again; the cluster says each time whether it has, for this caller, and nothing is
// used for another one, for another question, for another cluster of the name, or for long.
func TestAPageThatHasNotChangedDoesNotTravelAgain(t *testing.T) {
	now, unchanged := time.Unix(1000, 0), 0
	k := newKeyPages(func() time.Time { return now }, func(string) { unchanged++ })
	c := &tagging{tag: `W/"1"`, text: "one"}
	ann, bob, another := &user.DefaultInfo{Name: "ann", UID: "1"}, &user.DefaultInfo{Name: "bob", UID: "2"}, &user.DefaultInfo{Name: "ann", UID: "3"}
	v := url.Values{"view": {"keys"}, "limit": {"10"}}
	m1, again := &merge.Source{Name: "m1", UID: "a"}, &merge.Source{Name: "m1", UID: "b"}
	long := strings.Repeat("x", onePage+1)
	get := func(u user.Info, s *merge.Source, path string, v url.Values, read bool) (text string) {
		t.Helper()
		h := http.Header{"Accept": {"application/json"}}
		resp, err := k.of(u, s, path, c.ask)(t.Context(), v, h)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" || len(h) != 1 {
			t.Fatalf("%+v %v %v", resp, err, h)
		}
		defer resp.Body.Close()
		if !read {
			return ""
		}
		if text, err = merge.Text(resp, 1<<20, nil); err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, step := range []struct {
		what    string
		user    user.Info
		at      *merge.Source
		path    string
		v       url.Values
		with    string // the tag that the cluster is asked with
		before  func()
		text    string
		ignored bool
	}{
		{what: "one that is not read to its end", text: "", ignored: true},
		{what: "the first", text: "one"},
		{what: "the same again", with: `W/"1"`, text: "one"},
		{what: "another caller", user: bob, text: "one"},
		{what: "another person of the name", user: another, text: "one"},
		{what: "another path", path: "/kapi/v1/secrets", text: "one"},
		{what: "another page", v: url.Values{"view": {"keys"}, "limit": {"20"}}, text: "one"},
		{what: "another cluster of the name", at: again, text: "one"},
		{what: "objects", v: url.Values{"limit": {"10"}}, text: "one"},
		{what: "objects again", v: url.Values{"limit": {"10"}}, text: "one"},
		{what: "a change", before: func() { c.tag, c.text = `W/"2"`, "two" }, with: `W/"1"`, text: "two"},
		{what: "the same after it", with: `W/"2"`, text: "two"},
		{what: "much later", before: func() { now = now.Add(2 * pageAge) }, text: "two"},
		{what: "a page that is too long", before: func() { c.tag, c.text = `W/"3"`, long }, with: `W/"2"`, text: long},
		{what: "the page before it", with: `W/"2"`, text: long},
	} {
		if step.before != nil {
			step.before()
		}
		if step.user == nil {
			step.user = ann
		}
		if step.at == nil {
			step.at = m1
		}
		if step.path == "" {
			step.path = "/kapi/v1/pods"
		}
		if step.v == nil {
			step.v = v
		}
		if got := get(step.user, step.at, step.path, step.v, !step.ignored); got != step.text {
			t.Errorf("%s: %.100q, want %.100q", step.what, got, step.text)
		}
		if with := c.asked[len(c.asked)-1]; with != step.with {
			t.Errorf("%s: asked with %q, want %q", step.what, with, step.with)
		}
	}
	if unchanged != 2 {
		t.Errorf("%d pages have not changed", unchanged)
	}
}

// F39: pages that are kept have a bound.
func TestKeyPagesHaveABound(t *testing.T) {
	k := newKeyPages(time.Now, func(string) {})
	for i := range 1000 {
		k.set(pageKey{user: string(rune('a' + i%26)), parameters: strings.Repeat("p", i)}, &keyPage{text: strings.Repeat("x", onePage)})
	}
	if n := k.pages.Len() * onePage; n > pagesBytes {
		t.Errorf("%d bytes are kept", n)
	}
}
