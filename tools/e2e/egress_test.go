package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/client-go/tools/clientcmd"

	"kapis.dev/ks-apiserver/pkg/egress"
)

// listener counts the connections to a port of this machine.
func listener(t *testing.T) (port string, connections *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	connections = &atomic.Int64{}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port), connections
}

// asksElsewhere are all requests by which somebody has this server ask an address that he chose.
func asksElsewhere(ns, host string) []call {
	account := obj{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "metadata": obj{"name": "new"},
		"data": obj{".dockerconfigjson": base64.StdEncoding.EncodeToString([]byte(`{"auths":{"http://` + host + `":{"username":"a","password":"b"}}}`))}}
	bare := obj{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "metadata": obj{"name": "new",
		"annotations": obj{"secret.kubesphere.io/force-insecure": "true"}},
		"data": obj{".dockerconfigjson": base64.StdEncoding.EncodeToString([]byte(`{"auths":{"` + host + `":{"username":"a","password":"b"}}}`))}}
	image := url.QueryEscape(host + "/team/app")
	return []call{
		{method: http.MethodGet, path: kapis + "/namespaces/" + ns + "/imageconfig?image=" + image},
		{method: http.MethodGet, path: kapis + "/namespaces/" + ns + "/repositorytags?repository=" + image},
		{method: http.MethodGet, path: older + "/registry/blob?insecure=true&image=" + image},
		{method: http.MethodPost, path: kapis + "/namespaces/" + ns + "/registrysecrets/new/verify", body: account},
		{method: http.MethodPost, path: kapis + "/namespaces/" + ns + "/registrysecrets/new/verify", body: bare},
		{method: http.MethodPost, path: older + "/registry/verify", body: obj{"username": "a", "password": "b", "serverhost": host}},
		{method: http.MethodPost, path: older + "/git/verify", body: obj{"remoteUrl": "http://" + host + "/app.git"}},
		{method: http.MethodPost, path: older + "/git/verify", body: obj{"remoteUrl": "https://" + host + "/app.git"}},
		{method: http.MethodPost, path: storeAPI + "/repos?validate=true", body: obj{"spec": obj{"url": "http://" + host}}},
		{method: http.MethodPost, path: storeAPI + "/repos?validate=true", body: obj{"spec": obj{"url": "https://" + host}}},
		{method: http.MethodPost, path: storeAPI + "/repos", body: obj{"metadata": obj{"name": "new"}, "spec": obj{"url": "https://" + host,
			"credential": obj{"insecureSkipTLSVerify": true}}}},
	}
}

// What a tenant may have this server ask are container registries, Git servers and repositories of charts. Nothing of this machine and no metadata
// service is reached by them, however it is written and whatever a name resolves to: the address is refused when it is dialled. (Addresses of identity
// providers, of webhooks and of Clusters are set by those who run the platform; those of extensions are X6.)
func TestATenantReachesNothingOfThisMachine(t *testing.T) {
	proves(t, "S20")
	r, ns := recorded(t), newNamespace(t)
	port, connections := listener(t)
	ask := func(base, host string) (codes []int) {
		t.Helper()
		for _, q := range asksElsewhere(ns, host) {
			got, err := caller{base, admin(t).token}.do(t.Context(), q.method, q.path, q.body)
			if err != nil || got.code < 400 {
				t.Errorf("%s: %s %s = %d %s %v", host, q.method, q.path, got.code, clip(got.body), err)
			}
			codes = append(codes, got.code)
		}
		return codes
	}
	if ask(product.URL, "127.0.0.1:"+port); connections.Load() < int64(len(asksElsewhere(ns, ""))) {
		t.Fatalf("where it is allowed, %d connections were made", connections.Load())
	}
	connections.Store(0)
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "127.1.2.3", "[::1]", "localhost", "LOCALHOST", "localhost.", name, "0.0.0.0", "0", "127.1", "0x7f.1",
		"0x7f000001", "2130706433", "017700000001", "[::ffff:127.0.0.1]",
		"[::ffff:7f00:1]", "[::]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "127.0.0.1.", "①27.0.0.1"} {
		ask(r.replica.URL, host+":"+port)
	}
	if n := connections.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
	for _, host := range []string{"169.254.169.254", "169.254.169.254:80", "[fe80::1]:80", "[fd00:ec2::254]", "100.100.100.200", "168.63.129.16",
		"192.0.0.192"} {
		ask(r.replica.URL, host)
	}
}

// A name that leads elsewhere when it is looked at and here when it is dialled leads nowhere: the address that was judged is the one that is used.
func TestANameThatChangesItsMindIsRefusedAtTheDial(t *testing.T) {
	proves(t, "S20")
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	answers := rebinding(t)
	was := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", answers)
	}}
	t.Cleanup(func() { net.DefaultResolver = was })
	first, err := net.DefaultResolver.LookupIP(t.Context(), "ip4", "rebinding.example.")
	if err != nil || len(first) != 1 || first[0].IsLoopback() {
		t.Fatalf("looked at, it is %v, %v", first, err)
	}
	for allowed, want := range map[bool]bool{false: true, true: false} {
		client := &http.Client{Transport: egress.NewTransport(egress.Options{AllowLoopback: allowed})}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://rebinding.example.:"+port+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if refused := errors.Is(err, egress.ErrRefused); refused != want {
			t.Errorf("with loopback allowed %v: %v", allowed, err)
		}
		client.CloseIdleConnections()
	}
}

// rebinding is a name server whose first answer is an address of somewhere else, and each further one of this machine.
func rebinding(t *testing.T) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		asked := 0
		for b := make([]byte, 1500); ; {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			if q.Type == dnsmessage.TypeA {
				a := [4]byte{192, 0, 2, 1}
				if asked++; asked > 1 {
					a = [4]byte{127, 0, 0, 1}
				}
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: a}}}
			}
			if raw, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(raw, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

// Who may not read a Secret has nobody asked with it: he is refused before anything is dialled. Nor is there another way to a credential of others.
func TestACredentialIsUsedForThoseWhoMayReadIt(t *testing.T) {
	proves(t, "S25")
	a, ns, name := admin(t), newNamespace(t), unique("deputy")
	port, connections := listener(t)
	host := "127.0.0.1:" + port
	u := newUser(t, name)
	a.create(t, "/api/v1/namespaces/"+ns+"/secrets", registrySecret("pull", host, password))
	a.create(t, "/api/v1/namespaces/"+ns+"/secrets", obj{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/basic-auth",
		"metadata":   obj{"name": "git"},
		"stringData": obj{"username": "ann", "password": password}})
	grantGlobally(t, name, rule{[]string{"resources.kubesphere.io"}, []string{"*"}, []string{"*"}})
	image := "&secret=pull&image=" + host + "/team/app:v1"
	asks := []call{
		{method: http.MethodGet, path: kapis + "/namespaces/" + ns + "/imageconfig?x=y" + image},
		{method: http.MethodGet, path: kapis + "/namespaces/" + ns + "/repositorytags?secret=pull&repository=" + host + "/team/app"},
		{method: http.MethodGet, path: kapis + "/namespaces/" + ns + "/images?secret=pull&q=app"},
		{method: http.MethodGet, path: older + "/registry/blob?namespace=" + ns + image},
		{method: http.MethodPost, path: older + "/git/verify", body: obj{"remoteUrl": "http://" + host + "/app.git", "secretRef": obj{"name": "git",
			"namespace": ns}}},
	}
	for _, q := range asks {
		eventually(t, "the role lets ask, but not with the Secret", func(ctx context.Context) error {
			r, err := u.do(ctx, q.method, q.path, q.body)
			if err == nil && (r.code != http.StatusForbidden || !strings.Contains(r.body, `cannot get resource \"secrets\"`)) {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			return err
		})
	}
	if n := connections.Load(); n > 0 {
		t.Errorf("%d connections were made for somebody who may not read the Secret", n)
	}
	for _, path := range []string{iamRoutes + "/users/admin/apikeys", "/api/v1/namespaces/kubesphere-system/secrets"} {
		u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
	}
	for _, q := range asks { // by somebody who may, it is
		if _, err := a.do(t.Context(), q.method, q.path, q.body); err != nil {
			t.Error(err)
		}
	}
	if n := connections.Load(); n < int64(len(asks)) {
		t.Errorf("for the administrator %d connections were made", n)
	}
}

// A server that can't prove who it is is sent nothing: kube-apiserver, a registry, a Git server, an identity provider.
func TestAServerProvesWhoItIs(t *testing.T) {
	proves(t, "S21")
	a, ns := admin(t), newNamespace(t)
	var asked atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	srv.Config.ErrorLog = quiet
	srv.StartTLS()
	t.Cleanup(srv.Close)
	host := srv.Listener.Addr().String()
	for _, q := range asksElsewhere(ns, host) {
		said := q.path + encode(t, q.body)
		if slices.ContainsFunc([]string{"insecure=true", "force-insecure", "insecureSkipTLSVerify", "http://"}, func(word string) bool {
			return strings.Contains(said, word)
		}) {
			continue // who says that he wants no proof gets what he says
		}
		if r, err := a.do(t.Context(), q.method, q.path, q.body); err != nil || r.code < 400 {
			t.Errorf("%s %s: %d %s %v", q.method, q.path, r.code, clip(r.body), err)
		}
	}
	t.Run("an identity provider", func(t *testing.T) {
		const settings = "name: %[1]s\ntype: OIDCIdentityProvider\nmappingMethod: auto\ndisabled: %[3]v\nprovider:\n  issuer: %[2]s\n  clientID: ks\n" +
			"  clientSecret: of-nobody\n  insecureSkipVerify: %[3]v\n  redirectURL: https://ks.example/oauth/callback/%[1]s\n"
		provider := unique("unproven")
		a.create(t, secretsPath, providerSecret(provider, fmt.Sprintf(settings, provider, srv.URL, false)))
		awaitCondition(t, provider, "Configured", "True", "")
		// It is asked now: whether it can be shown to answer is what the condition says then.
		if _, err := a.do(t.Context(), http.MethodPost, providersPath+"/"+provider+"/test", obj{}); err != nil {
			t.Fatal(err)
		}
		awaitCondition(t, provider, "Reachable", "False", "")
		if status, text, err := providerCondition(t.Context(), a, provider, "CertificateVerified"); err == nil {
			t.Errorf("a provider whose certificate is verified is said not to be: %s %s", status, text)
		}
		careless := unique("careless")
		a.create(t, secretsPath, providerSecret(careless, fmt.Sprintf(settings, careless, srv.URL, true)))
		awaitCondition(t, careless, "CertificateVerified", "False", "not verified")
	})
	if n := asked.Load(); n > 0 {
		t.Errorf("a server without proof was asked %d times", n)
	}
	t.Run("kube-apiserver", func(t *testing.T) {
		k, err := clientcmd.LoadFromFile(filepath.Join(product.Dir, "ks-apiserver.kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		_, other := certificateOf(t, "somebody.else")
		for _, c := range k.Clusters {
			c.CertificateAuthority, c.CertificateAuthorityData = "", other
		}
		file := filepath.Join(t.TempDir(), "kubeconfig")
		if err := clientcmd.WriteToFile(*k, file); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		log := &noticing{text: "certificate", done: cancel}
		if r, err := product.LoggedReplica(ctx, log, "--kubeconfig", file); err == nil {
			_ = r.Stop()
			t.Error("a replica is ready at a kube-apiserver that it can't know")
		}
		if !log.noticed() {
			t.Error("it doesn't say why")
		}
	})
}
