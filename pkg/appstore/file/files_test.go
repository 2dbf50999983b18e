package file_test

import (
	"bytes"
	"encoding/pem"
	"encoding/xml"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/fake"

	"kapis.dev/ks-apiserver/pkg/appstore/file"
)

// object is one of a bucket.
type object struct {
	content []byte
	labels  string
	changed time.Time
}

// server is an S3 server with one bucket, which verifies no signature: the end-to-end test has a real one.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]object
	// answer is what it does in place of its work; nil for that.
	answer http.HandlerFunc
}

func newServer(t *testing.T) *server {
	s := &server{objects: map[string]object{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		name, inBucket := strings.CutPrefix(r.URL.Path, "/files/")
		switch {
		case s.answer != nil:
			s.answer(w, r)
			return
		case !inBucket || r.Header.Get("Authorization") == "":
			http.Error(w, "", http.StatusForbidden)
			return
		case name == "":
			s.list(w)
			return
		}
		is, there := s.objects[name]
		switch r.Method {
		case http.MethodPut:
			content, _ := io.ReadAll(r.Body)
			s.objects[name] = object{content, r.Header.Get("X-Amz-Meta-Kapis-Labels"), time.Unix(1000, 0)}
		case http.MethodDelete:
			delete(s.objects, name)
			w.WriteHeader(http.StatusNoContent)
		case http.MethodGet, http.MethodHead:
			if !there {
				refuse(w, r, http.StatusNotFound, "NoSuchKey")
				return
			}
			w.Header().Set("ETag", `"e"`)
			w.Header().Set("Last-Modified", is.changed.UTC().Format(http.TimeFormat))
			w.Header().Set("X-Amz-Meta-Kapis-Labels", is.labels)
			_, _ = w.Write(is.content)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) list(w io.Writer) {
	type content struct {
		Key, ETag    string
		LastModified time.Time
	}
	var page struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []content
	}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		page.Contents = append(page.Contents, content{name, `"e"`, s.objects[name].changed})
	}
	_ = xml.NewEncoder(w).Encode(page)
}

// canary is in all that a server writes of its own.
const canary = "canary-of-the-server"

func refuse(w http.ResponseWriter, r *http.Request, code int, reason string) {
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, "<Error><Code>"+reason+"</Code><Message>"+canary+"</Message></Error>")
	}
}

// does has the server do something else.
func (s *server) does(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *server) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.objects[name]
	return there
}

func (s *server) options(t *testing.T) file.BucketOptions {
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file.BucketOptions{Host: strings.TrimPrefix(s.URL, "https://"), Region: "us-east-1", Name: "files", KeyID: "id", Key: "secret-of-ours",
		AuthorityFile: authority}
}

func open(t *testing.T, maps *fake.Clientset, o file.Options) *file.Files {
	t.Helper()
	f, err := file.Open(maps.CoreV1(), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// is fails the test unless a file has a content; "" for none.
func is(t *testing.T, f file.Store, name, content string) {
	t.Helper()
	raw, err := f.Get(t.Context(), name)
	if content == "" && !apierrors.IsNotFound(err) || content != "" && (err != nil || string(raw) != content) {
		t.Errorf("%s: %.40q, %v", name, raw, err)
	}
}

func put(t *testing.T, f file.Store, name, content string) {
	t.Helper()
	if err := f.Put(t.Context(), name, map[string]string{"kubesphere.io/workspace": "a&b", "x": ""}, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

func TestX36AFileIsInTheBucketWithWhoseItIs(t *testing.T) {
	s := newServer(t)
	f := open(t, fake.NewClientset(), file.Options{Bucket: s.options(t)})
	is(t, f, "a-1.0.0", "")
	if _, err := f.Labels(t.Context(), "a-1.0.0"); !apierrors.IsNotFound(err) {
		t.Errorf("labels of no file: %v", err)
	}
	large := strings.Repeat("x", file.MaxInBucket)
	put(t, f, "a-1.0.0", large)
	is(t, f, "a-1.0.0", large)
	labels, err := f.Labels(t.Context(), "a-1.0.0")
	if err != nil || !maps.Equal(labels, map[string]string{"kubesphere.io/workspace": "a&b", "x": ""}) {
		t.Errorf("labels are %v, %v", labels, err)
	}
	if err := f.Put(t.Context(), "b", nil, bytes.Repeat([]byte{0}, file.MaxInBucket+1)); !apierrors.IsRequestEntityTooLargeError(err) || s.has("b") {
		t.Errorf("a file that is too large: %v", err)
	}
	for range 2 {
		if err := f.Delete(t.Context(), "a-1.0.0"); err != nil || s.has("a-1.0.0") {
			t.Errorf("a deletion: %v", err)
		}
	}
}

// An installation that gets a bucket, and one that goes back, has each file in one place, the newer content.
func TestX36FilesGoFromConfigMapsToABucketAndBack(t *testing.T) {
	s, kube := newServer(t), fake.NewClientset()
	inMap := func(name string) bool {
		_, err := file.NewConfigMaps(kube.CoreV1()).Get(t.Context(), name)
		return err == nil
	}
	maps := open(t, kube, file.Options{})
	put(t, maps, "older", "1")
	put(t, maps, "replaced", "1")
	both := open(t, kube, file.Options{Bucket: s.options(t)})
	put(t, both, "replaced", "2")
	put(t, both, "new", "2")
	is(t, both, "older", "1")
	is(t, both, "replaced", "2")
	if inMap("replaced") || !inMap("older") || inMap("new") || !s.has("new") {
		t.Error("a file is in the wrong place, or in two")
	}
	back := open(t, kube, file.Options{Bucket: s.options(t), OldOnly: true})
	put(t, back, "replaced", "3")
	is(t, back, "replaced", "3")
	is(t, back, "new", "2")
	is(t, maps, "replaced", "3")
	if s.has("replaced") || back.MaxSize() != file.MaxInConfigMap {
		t.Error("a new file is in the bucket")
	}
	for _, name := range []string{"older", "replaced", "new"} {
		if err := back.Delete(t.Context(), name); err != nil {
			t.Error(err)
		}
		is(t, back, name, "")
	}
}

func TestX36AServerThatIsAwayLosesNothing(t *testing.T) {
	s, kube := newServer(t), fake.NewClientset()
	maps, both := open(t, kube, file.Options{}), open(t, kube, file.Options{Bucket: s.options(t)})
	put(t, maps, "older", "1")
	put(t, both, "new", "2")
	for name, broken := range map[string]http.HandlerFunc{
		"it is away": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"it fails": func(w http.ResponseWriter, r *http.Request) {
			refuse(w, r, http.StatusInternalServerError, "InternalError")
		},
		"it refuses the keys": func(w http.ResponseWriter, r *http.Request) {
			refuse(w, r, http.StatusForbidden, "SignatureDoesNotMatch")
		},
		"it has no bucket": func(w http.ResponseWriter, r *http.Request) { refuse(w, r, http.StatusNotFound, "NoSuchBucket") },
		"it leads elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example/"+canary, http.StatusTemporaryRedirect)
		},
	} {
		s.does(broken)
		is(t, both, "older", "1") // what a ConfigMap has needs no bucket
		_, readErr := both.Get(t.Context(), "new")
		for what, err := range map[string]error{
			"read": readErr, "write": both.Put(t.Context(), "older", nil, []byte("3")), "delete": both.Delete(t.Context(), "new"),
		} {
			if err == nil || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "S3 server") || strings.Contains(err.Error(), canary) ||
				strings.Contains(err.Error(), "secret-of-ours") {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		is(t, maps, "older", "1")
		s.does(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, canary, http.StatusNotFound) }) // a server of something else
		if err := both.Put(t.Context(), "older", nil, []byte("3")); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("a file that went nowhere: %v", err)
		}
		is(t, maps, "older", "1")
		s.does(nil)
		is(t, both, "new", "2")
	}
}

func TestX36WhatAServerSendsIsBounded(t *testing.T) {
	s := newServer(t)
	f := open(t, fake.NewClientset(), file.Options{Bucket: s.options(t)})
	s.does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
		for chunk := bytes.Repeat([]byte{'x'}, 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	if raw, err := f.Get(t.Context(), "a"); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("%d bytes were read: %v", len(raw), err)
	}
}

func TestX36TheCertificateOfTheServerIsVerified(t *testing.T) {
	s := newServer(t)
	o := s.options(t)
	o.AuthorityFile = ""
	if err := open(t, fake.NewClientset(), file.Options{Bucket: o}).Put(t.Context(), "a", nil, nil); err == nil || s.has("a") {
		t.Errorf("a file went to a server that nobody vouches for: %v", err)
	}
	o.AuthorityFile = filepath.Join(t.TempDir(), "none")
	if _, err := file.Open(fake.NewClientset().CoreV1(), file.Options{Bucket: o}); err == nil {
		t.Error("authorities that can't be read are none")
	}
}

func TestX36OldFilesOfABucketAreFound(t *testing.T) {
	s := newServer(t)
	b := open(t, fake.NewClientset(), file.Options{Bucket: s.options(t)}).Bucket()
	for _, name := range []string{"old", "unwanted"} {
		put(t, b, name, "1")
	}
	wanted := func(name string) bool { return name != "unwanted" }
	for at, want := range map[int64][]string{999: nil, 1001: {"old"}} {
		if names, err := b.Names(t.Context(), time.Unix(at, 0), wanted); err != nil || !slices.Equal(names, want) {
			t.Errorf("before %d: %v, %v", at, names, err)
		}
	}
}
