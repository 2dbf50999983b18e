package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
)

// fakeServer plays ks-apiserver's token endpoint: password "Right1pw" and refresh token "r1" are good.
func fakeServer(t *testing.T, s *session) *httptest.Server {
	t.Helper()
	return serve(t, s, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/oauth/token":
			if r.Header.Get("Authorization") != "Bearer a-password" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		case r.PostFormValue("client_id") != "kubesphere" || r.PostFormValue("client_secret") != "kubesphere":
			w.WriteHeader(http.StatusUnauthorized)
		case r.PostFormValue("password") == "Right1pw" && r.PostFormValue("username") == "admin",
			r.PostFormValue("refresh_token") == "r1":
			_ = json.NewEncoder(w).Encode(map[string]any{
				"access_token": "a-" + r.PostFormValue("grant_type"), "refresh_token": "r1", "expires_in": 7200,
			})
		case r.PostFormValue("refresh_token") == "down":
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.PostFormValue("password") == "empty":
			_, _ = io.WriteString(w, "{}")
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		}
	})
}

// serve answers at the address of ks-apiserver.
func serve(t *testing.T, s *session, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	s.port, _ = strconv.Atoi(port)
	return server
}

func TestLogin(t *testing.T) {
	s := newSession(t)
	fakeServer(t, s)
	l, err := passwordLogin(t.Context(), s.url(), "kubesphere", "Right1pw")
	if err != nil || l != (login{"a-password", "r1", 7200}) {
		t.Fatalf("%+v, %v", l, err)
	}
	if _, err := get(t.Context(), s.url()+"/kapis", l.Access); err != nil {
		t.Error(err)
	}
	if _, err := passwordLogin(t.Context(), s.url(), "kubesphere", "wrong"); !refused(err) || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := passwordLogin(t.Context(), s.url(), "kubesphere", "empty"); err == nil || refused(err) {
		t.Errorf("an answer without a token: %v", err)
	}
	_, err = s.logIn(t.Context(), "wrong")
	if err == nil || !strings.Contains(err.Error(), "ADMIN_PASSWORD=") {
		t.Errorf("an admin with another password: %v", err)
	}
}

func TestKeepLoggedIn(t *testing.T) {
	s := newSession(t)
	t.Run("TokensThatDoNotEndNeedNothing", func(t *testing.T) {
		s.keepLoggedIn(t.Context(), login{Access: "x"}) // returns
	})
	t.Run("EndsWithTheContext", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.keepLoggedIn(ctx, login{Access: "x", Seconds: 7200})
	})
}

func TestKubeconfigNamesTheHTTPSPort(t *testing.T) {
	s := newSession(t)
	if err := os.WriteFile(s.path("tls-ca.crt"), []byte("ca"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.writeKubeconfig(login{Access: "tok"}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.path("ks.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"server: https://127.0.0.1:2\n", "certificate-authority-data: Y2E=\n", `token: "tok"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %q in\n%s", want, data)
		}
	}
	if info, err := os.Stat(s.path("ks.kubeconfig")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestAnExistingClusterIsUsedAsItIs(t *testing.T) {
	s := newSession(t)
	s.kubeconfig = "/somebody/elses"
	if err := s.writeConfiguration(t.Context()); err != nil { // without bin/dev
		t.Fatal(err)
	}
	if s.identity("ks-apiserver") != s.kubeconfig || s.clusterKubeconfig() != s.kubeconfig {
		t.Error("another kubeconfig is used")
	}
	cert, err := tls.LoadX509KeyPair(s.path("tls.crt"), s.path("tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(s.path("tls-ca.crt"))
	if err != nil || !roots.AppendCertsFromPEM(ca) {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(server.URL)
	if err != nil {
		t.Fatalf("clients that trust tls-ca.crt: %v", err)
	}
	resp.Body.Close()
}

func TestConfigurationNamesTheIssuer(t *testing.T) {
	s := newSession(t)
	s.kubeconfig = "/x"
	if err := s.writeConfiguration(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.path("kubesphere.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"    url: https://localhost:2\n", "  server: https://127.0.0.1:2\n", "  certificateAuthority: \"" + s.path("tls-ca.crt") +
		"\"\n", "  clusterRole: host\n", "  hostClusterName: host\n"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %q in\n%s", want, data)
		}
	}
}
