package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// serve serves a registry on loopback, after a filter, and returns its address.
func serve(t *testing.T, filter func(http.Handler) http.Handler) string {
	t.Helper()
	server := httptest.NewServer(filter(registry.New(registry.Logger(log.New(io.Discard, "", 0)))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// open is the filter of a registry that accepts everything.
func open(h http.Handler) http.Handler { return h }

// credentials makes docker's configuration for this test.
func credentials(t *testing.T, text string) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_CONFIG", folder)
}

// What is pulled is what was built, of one platform and of several.
func TestPushAndPull(t *testing.T) {
	credentials(t, "{}")
	for _, platforms := range [][]string{{"linux/amd64"}, {"linux/amd64", "linux/arm64"}} {
		t.Run(strings.Join(platforms, " and "), func(t *testing.T) {
			b := build(t, platforms...)
			built := assembled(t, b)
			address := serve(t, open)
			pushed, err := Push{From: b.Out, Registry: address + "/team", Tag: "v1", Log: t.Output()}.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range programs {
				want := Digest{address + "/team/" + p.name + ":v1", built[i].Digest}
				if pushed[i] != want {
					t.Errorf("pushed is %v, want %v", pushed[i], want)
				}
				ref, err := name.ParseReference(pushed[i].Name)
				if err != nil {
					t.Fatal(err)
				}
				got, err := remote.Get(ref)
				if err != nil {
					t.Fatal(err)
				}
				if got.Digest.String() != built[i].Digest {
					t.Errorf("pulled is %s, built was %s", got.Digest, built[i].Digest)
				}
				if len(platforms) > 1 {
					index, err := got.ImageIndex()
					if err != nil {
						t.Fatal(err)
					}
					if err := validate.Index(index); err != nil {
						t.Error(err)
					}
					continue
				}
				img, err := got.Image()
				if err != nil {
					t.Fatal(err)
				}
				if err := validate.Image(img); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Credentials come from docker's own configuration, and go to the registry that they are for.
func TestPushWithTheCredentialsOfDocker(t *testing.T) {
	b := build(t, "linux/amd64")
	assembled(t, b)
	var seen atomic.Value
	address := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, ok := r.BasicAuth()
			if !ok || user != "ann" || password != "secret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			seen.Store(user)
			h.ServeHTTP(w, r)
		})
	})
	auth := base64.StdEncoding.EncodeToString([]byte("ann:secret"))
	credentials(t, fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, address, auth))
	if _, err := (Push{From: b.Out, Registry: address, Tag: "v1", Log: t.Output()}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seen.Load() != "ann" {
		t.Errorf("the registry has seen %v", seen.Load())
	}

	credentials(t, fmt.Sprintf(`{"auths":{"other.example.com":{"auth":%q}}}`, auth))
	_, err := Push{From: b.Out, Registry: address, Tag: "v2", Log: t.Output()}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the registry "+address+" refuses ") || !strings.Contains(err.Error(), "docker login "+address) {
		t.Errorf("got %v, want an error that says how to log in", err)
	}
	if err != nil && (strings.Contains(err.Error(), auth) || strings.Contains(err.Error(), "secret")) {
		t.Errorf("the error shows credentials: %v", err)
	}
}

func TestAPushThatFailsSaysWhy(t *testing.T) {
	credentials(t, "{}")
	b := build(t, "linux/amd64")
	assembled(t, b)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	listener.Close()
	answer := func(status int) func(http.Handler) http.Handler {
		return func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		}
	}
	readOnly := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !slices.Contains([]string{http.MethodGet, http.MethodHead}, r.Method) {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
	for what, c := range map[string]struct {
		push Push
		want string
	}{
		"nobody listens":       {Push{From: b.Out, Registry: closed, Tag: "v1"}, "the registry " + closed + " can't be reached"},
		"a name that is none":  {Push{From: b.Out, Registry: "registry.invalid", Tag: "v1"}, "the registry registry.invalid can't be reached"},
		"may read, not write":  {Push{From: b.Out, Registry: serve(t, readOnly), Tag: "v1"}, "that may write there"},
		"not a registry":       {Push{From: b.Out, Registry: serve(t, answer(http.StatusNotFound)), Tag: "v1"}, "push 127.0.0.1"},
		"no registry is named": {Push{From: b.Out, Tag: "v1"}, "name the registry"},
		"a bad name":           {Push{From: b.Out, Registry: "Registry example", Tag: "v1"}, "name the image of ks-apiserver"},
		"nothing was built":    {Push{From: t.TempDir(), Registry: closed, Tag: "v1"}, "make image builds it"},
	} {
		t.Run(what, func(t *testing.T) {
			c.push.Log = t.Output()
			if _, err := c.push.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}

	tls := httptest.NewTLSServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer tls.Close()
	ref, err := name.NewTag(strings.TrimPrefix(tls.URL, "https://") + "/x:v1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&http.Client{}).Get(tls.URL)
	if got := explain(ref, err); got == nil || !strings.Contains(got.Error(), "is not trusted: name its authority in SSL_CERT_FILE") {
		t.Errorf("got %v", got)
	}
}
