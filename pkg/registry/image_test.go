package registry

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

var quiet = log.New(io.Discard, "", 0)

func TestAnImageIsReadWithItsConfiguration(t *testing.T) {
	for _, access := range []string{"open", "basic", "token"} {
		t.Run(access, func(t *testing.T) {
			w := newWorld(t, access, nil)
			img := w.push(t, "team/app", "v1")
			digest, err := img.Digest()
			if err != nil {
				t.Fatal(err)
			}
			for _, ref := range []string{"team/app:v1", "team/app@" + digest.String()} {
				got, err := local(t).Image(t.Context(), w.host+"/"+ref, w.creds(ann))
				if err != nil {
					t.Fatal(err)
				}
				if got.Registry != w.host || !strings.HasSuffix(ref, got.Tag) || got.Tag == "" {
					t.Errorf("%+v", got)
				}
				if len(got.Manifest.Layers) != 1 || fmt.Sprint(got.Config.Config.Cmd) != "[run team/app]" {
					t.Errorf("manifest %+v, config %+v", got.Manifest, got.Config)
				}
			}
			_, err = local(t).Image(t.Context(), w.host+"/team/app:none", w.creds(ann))
			is(t, err, 404, "no such image")
			_, err = local(t).Image(t.Context(), w.host+"/team/none:v1", w.creds(ann))
			is(t, err, 404, "no such image")
			if access != "open" {
				_, err = local(t).Image(t.Context(), w.host+"/team/app:v1", w.creds(Account{"ann", "wrong"}))
				is(t, err, 400, "refuses the credentials")
				_, err = local(t).Image(t.Context(), w.host+"/team/app:v1", &Credentials{Insecure: true})
				is(t, err, 400, "refuses the credentials")
			}
		})
	}
}

func TestOfSeveralPlatformsTheCommonOneIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		platforms []string
		want      string
	}{
		"TheCommonOne":                   {[]string{"linux/arm64", "linux/amd64", "windows/amd64"}, "linux/amd64"},
		"TheOneThatHasNoName":            {[]string{"linux/arm64", ""}, ""},
		"TheFirstForLinuxWithoutIt":      {[]string{"windows/amd64", "linux/arm64", "linux/s390x"}, "linux/arm64"},
		"TheFirstWithoutLinux":           {[]string{"windows/amd64", "windows/arm64"}, "windows/amd64"},
		"NeverWhatIsSaidAboutAnotherOne": {[]string{"unknown/unknown", "linux/arm64"}, "linux/arm64"},
		"WhateverTheOrderOfTheOthers":    {[]string{"unknown/unknown", "windows/amd64", "linux/amd64"}, "linux/amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "basic", nil)
			w.pushIndex(t, "app", "v1", c.platforms...)
			got, err := local(t).Image(t.Context(), w.host+"/app:v1", w.creds(ann))
			if err != nil || got.Config.Author != c.want {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	w := newWorld(t, "open", nil)
	w.pushIndex(t, "app", "v1", "unknown/unknown")
	_, err := local(t).Image(t.Context(), w.host+"/app:v1", w.creds(Account{}))
	is(t, err, 400, "nothing there that is an image")
}

func TestWhatIsNoNameOfAnImageIsRefused(t *testing.T) {
	for _, image := range []string{"", "A", "a b", "a:", "a@sha256:1", "http://a/b", "a:b:c", strings.Repeat("a", maxName+1), "../x", "a//b", "a\nb"} {
		_, err := local(t).Image(t.Context(), image, &Credentials{})
		is(t, err, 400, "not the name of an image")
	}
	for _, repository := range []string{"", "A", "a b", "a:tag", "http://a/b", strings.Repeat("a", maxName+1), "../x"} {
		_, err := local(t).Tags(t.Context(), repository, &Credentials{})
		is(t, err, 400, "not the name of a repository")
	}
}

func TestAnswersThatGrowWithoutEndAreCutOff(t *testing.T) {
	endless := func(w http.ResponseWriter, known bool) {
		if known {
			w.Header().Set("Content-Length", strconv.Itoa(maxBody+1))
		}
		for range maxBody/(64<<10) + 2 {
			if _, err := w.Write(bytes.Repeat([]byte(" "), 64<<10)); err != nil {
				return
			}
		}
	}
	for _, known := range []bool{true, false} {
		w := newWorld(t, "open", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v2/" {
				endless(w, known)
			}
		}))
		_, err := local(t).Image(t.Context(), w.host+"/a:b", w.creds(ann))
		is(t, err, 400, "more than this server takes")
		_, err = local(t).Tags(t.Context(), w.host+"/a", w.creds(ann))
		is(t, err, 400, "more than this server takes")
		_, err = local(t).Search(t.Context(), "a", w.creds(ann))
		is(t, err, 400, "more than this server takes")
	}
}

func TestAConfigurationThatIsNotTheManifestsIsRefused(t *testing.T) {
	inner := newWorld(t, "open", nil)
	inner.push(t, "app", "v1")
	w := newWorld(t, "open", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			_, _ = io.WriteString(w, `{"architecture":"forged","os":"internal-answer"}`)
			return
		}
		r.Host = inner.host
		inner.Config.Handler.ServeHTTP(w, r)
	}))
	_, err := local(t).Image(t.Context(), w.host+"/app:v1", w.creds(ann))
	is(t, err, 400, "does not answer as")
}

// pages is a registry whose list of tags has so many pages, of two each.
func pages(n int, link func(next int) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			return
		}
		at, _ := strconv.Atoi(r.URL.Query().Get("next"))
		if at+1 < n {
			w.Header().Set("Link", link(at+1))
		}
		_, _ = fmt.Fprintf(w, `{"name":"app","tags":["t%d-a","t%d-b"]}`, at, at)
	})
}

func TestTagsAreReadPageByPage(t *testing.T) {
	w := newWorld(t, "basic", pages(3, func(next int) string { return fmt.Sprintf(`</v2/app/tags/list?n=1000&next=%d>; rel="next"`, next) }))
	got, err := local(t).Tags(t.Context(), w.host+"/app", w.creds(ann))
	if err != nil || fmt.Sprint(got.Tags) != "[t0-a t0-b t1-a t1-b t2-a t2-b]" || got.More || got.Registry != w.host || got.Repository != "app" {
		t.Errorf("%+v, %v", got, err)
	}
	w = newWorld(t, "open", nil)
	w.push(t, "app", "v1")
	w.push(t, "app", "v2")
	got, err = local(t).Tags(t.Context(), w.host+"/app", w.creds(Account{}))
	if err != nil || fmt.Sprint(got.Tags) != "[v1 v2]" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = local(t).Tags(t.Context(), w.host+"/none", w.creds(Account{}))
	is(t, err, 404, "")
}

func TestALinkLeadsToNoOtherPlace(t *testing.T) { // S20
	for name, link := range map[string]string{
		"host":   `<http://169.254.169.254/latest?next=%d>; rel="next"`,
		"path":   `</api/v2.0/users?next=%d>; rel="next"`,
		"scheme": `<file:///etc/passwd?next=%d>; rel="next"`,
	} {
		w := newWorld(t, "open", pages(2, func(next int) string { return fmt.Sprintf(link, next) }))
		got, err := local(t).Tags(t.Context(), w.host+"/app", w.creds(ann))
		if err != nil || len(got.Tags) != 4 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for _, r := range w.seen() {
			if r.URL.Path != "/v2/" && r.URL.Path != "/v2/app/tags/list" {
				t.Errorf("%s: %s was asked for", name, r.URL)
			}
		}
	}
}

func TestAListOfTagsEnds(t *testing.T) {
	w := newWorld(t, "open", pages(1<<30, func(next int) string { return fmt.Sprintf(`<?next=%d>; rel="next"`, next) }))
	got, err := local(t).Tags(t.Context(), w.host+"/app", w.creds(ann))
	if err != nil || len(got.Tags) != 2*maxPages || !got.More {
		t.Errorf("%d tags, more %v, %v", len(got.Tags), got.More, err)
	}
	w = newWorld(t, "open", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"tags":["a"`+strings.Repeat(`,"b"`, maxTags)+`]}`)
	}))
	got, err = local(t).Tags(t.Context(), w.host+"/app", w.creds(ann))
	if err != nil || len(got.Tags) != maxTags || !got.More {
		t.Errorf("%d tags, more %v, %v", len(got.Tags), got.More, err)
	}
}

func FuzzNextQuery(f *testing.F) {
	for _, s := range []string{`</v2/a?n=1&last=b>; rel="next"`, `<>`, `<a?b>`, `<%>; rel=next`, ``, `<//x/?y>;rel=next`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, link string) {
		const path = "/v2/app/tags/list"
		next := url.URL{Scheme: "https", Host: "registry", Path: path, RawQuery: nextQuery(link)}
		if u, err := url.Parse(next.String()); err == nil && (u.Host != "registry" || u.Path != path || u.Scheme != "https" || u.User != nil || u.Fragment != "") {
			t.Errorf("%q leads to %s", link, u)
		}
	})
}
