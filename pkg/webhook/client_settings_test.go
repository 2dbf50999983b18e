package webhook_test

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/webhook"
)

func TestTheTokenIsThatOfItsFileNow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	e := webhook.Endpoint{URL: "https://recorder.example", TokenFile: file}
	for text, want := range map[string]string{"one\n": "Bearer one", "two": "Bearer two", "": "", "a b": "", "a\nb": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Header: http.Header{}}
		if err := e.Authorize(r); (err == nil) != (want != "") || r.Header.Get("Authorization") != want {
			t.Errorf("%q: %v %v", text, r.Header, err)
		}
		if _, err := e.TLS(); (err == nil) != (want != "") {
			t.Errorf("%q at the start: %v", text, err)
		}
	}
}

func TestFilesThatCantBeUsedAreNamed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, e := range map[string]webhook.Endpoint{
		"has no certificate":                {CAFile: empty},
		"read caFile":                       {CAFile: empty + "x"},
		"certFile and keyFile belong":       {CertFile: empty},
		"read certFile and keyFile":         {CertFile: empty, KeyFile: empty},
		"has no token on one line":          {TokenFile: empty},
		"read tokenFile: open " + empty[:1]: {TokenFile: empty + "x"},
	} {
		if _, err := e.TLS(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", e, err, want)
		}
	}
}

func TestAnErrorHasNoURL(t *testing.T) {
	inner := errors.New("refused")
	if err := webhook.WithoutURL(&url.Error{Op: "Post", URL: "https://x?secret", Err: inner}); !errors.Is(err, inner) || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	if err := webhook.WithoutURL(inner); !errors.Is(err, inner) {
		t.Error(err)
	}
}
