package frontproxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/client-go/kubernetes/fake"

	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
)

// authority is a certificate authority of a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	text        string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "front-proxy-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	a.certificate, a.key = a.sign(t, template)
	a.text = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
	return a
}

// sign makes a certificate; the first one of an authority is its own.
func (a *authority) sign(t testing.TB, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}

// client returns the connection of a client whose certificate a signed.
func (a *authority) client(t testing.TB, name string, usage x509.ExtKeyUsage, until time.Time) *tls.ConnectionState {
	t.Helper()
	c, _ := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{usage}, NotAfter: until})
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
}

func data(ca string) map[string]string {
	return map[string]string{
		"requestheader-client-ca-file":       ca,
		"requestheader-allowed-names":        `["front-proxy-client"]`,
		"requestheader-username-headers":     `["X-Remote-User"]`,
		"requestheader-uid-headers":          `["X-Remote-Uid"]`,
		"requestheader-group-headers":        `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
}

func newAuthenticator(ca string) *Authenticator {
	a := &Authenticator{Now: time.Now}
	a.set(Name, data(ca))
	return a
}

func header(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

// O29: the front proxy alone names users; whoever else sends its headers is nobody.
func TestOnlyTheFrontProxyNamesUsers(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	a := newAuthenticator(ca.text)
	good := ca.client(t, "front-proxy-client", x509.ExtKeyUsageClientAuth, time.Time{})
	root := header("X-Remote-User: root", "X-Remote-Group: system:masters")
	for name, c := range map[string]struct {
		tls     *tls.ConnectionState
		headers http.Header
		ok      bool
	}{
		"the front proxy":        {good, root, true},
		"plain HTTP":             {nil, root, false},
		"no certificate":         {&tls.ConnectionState{}, root, false},
		"another authority":      {other.client(t, "front-proxy-client", x509.ExtKeyUsageClientAuth, time.Time{}), root, false},
		"another name":           {ca.client(t, "kubelet", x509.ExtKeyUsageClientAuth, time.Time{}), root, false},
		"no name":                {ca.client(t, "", x509.ExtKeyUsageClientAuth, time.Time{}), root, false},
		"a serving certificate":  {ca.client(t, "front-proxy-client", x509.ExtKeyUsageServerAuth, time.Time{}), root, false},
		"an expired certificate": {ca.client(t, "front-proxy-client", x509.ExtKeyUsageClientAuth, time.Now().Add(-time.Minute)), root, false},
		"the authority after a certificate of its own": {&tls.ConnectionState{PeerCertificates: []*x509.Certificate{
			other.client(t, "front-proxy-client", x509.ExtKeyUsageClientAuth, time.Time{}).PeerCertificates[0], ca.certificate}}, root, false},
		"the front proxy without a user":             {good, header("X-Remote-Group: system:masters"), false},
		"the front proxy with an empty user":         {good, header("X-Remote-User: ", "X-Remote-Group: system:masters"), false},
		"the front proxy with a bearer token":        {good, header("Authorization: Bearer x"), false},
		"the front proxy with another header's user": {good, header("X-Remote-Username: root"), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &http.Request{TLS: c.tls, Header: c.headers.Clone()}
			got, ok, err := a.AuthenticateRequest(r)
			if ok != c.ok || ok && (err != nil || got.User.GetName() != "root") || !ok && got != nil {
				t.Errorf("got %+v %v %v, want %v", got, ok, err, c.ok)
			}
		})
	}
}

// Headers are read as aggregated API servers of Kubernetes' own library read them.
func TestHeadersAreReadAsKubernetesReadsThem(t *testing.T) { // O29
	ca := newAuthority(t)
	a := newAuthenticator(ca.text)
	theirs, err := headerrequest.New([]string{"X-Remote-User"}, []string{"X-Remote-Uid"}, []string{"X-Remote-Group"}, []string{"X-Remote-Extra-"})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []http.Header{
		header("X-Remote-User: ann"),
		header("X-Remote-User: ann", "X-Remote-User: bob"),
		header("x-remote-user: ann", "x-remote-uid: 7", "x-remote-group: a", "x-remote-group: b"),
		header("X-Remote-User: system:serviceaccount:a:b", "X-Remote-Group: ", "X-Remote-Group: x%2Fy", "X-Remote-Group: a,b"),
		header("X-Remote-User: ann%20b", "X-Remote-Extra-Scopes: x", "X-Remote-Extra-Scopes: y", "X-Remote-Extra-Example.com%2fteam: z"),
		header("X-Remote-User: ann", "X-Remote-Extra-%zz: broken", "X-Remote-Extra-: none"),
		{"X-Remote-User": {"ann"}, "x-remote-group": {"not canonical"}, "X-REMOTE-EXTRA-A": {"1"}},
	} {
		r := &http.Request{TLS: ca.client(t, "front-proxy-client", x509.ExtKeyUsageClientAuth, time.Time{}), Header: h.Clone()}
		got, _, err := a.AuthenticateRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := theirs.AuthenticateRequest(&http.Request{Header: h.Clone()})
		if err != nil || !reflect.DeepEqual(got.User, want.User) {
			t.Errorf("%v: got %+v, want %+v %v", h, got.User, want.User, err)
		}
		a.Cut(r.Header)
		if len(r.Header) > 0 && !reflect.DeepEqual(r.Header, http.Header{"x-remote-group": {"not canonical"}}) {
			t.Errorf("%v is left of %v", r.Header, h)
		}
	}
}

func TestAConfigurationThatCantBeReadAuthenticatesNobody(t *testing.T) { // O29
	ca := newAuthority(t)
	peer := ca.client(t, "front-proxy-client", x509.ExtKeyUsageClientAuth, time.Time{})
	for name, change := range map[string]func(map[string]string){
		"no authority": func(d map[string]string) { delete(d, keyCA) },
		"a broken authority": func(d map[string]string) {
			d[keyCA] += "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
		},
		"broken names":    func(d map[string]string) { d[keyNames] = "front-proxy-client" },
		"no header":       func(d map[string]string) { d[keyUsername] = "[]" },
		"an empty header": func(d map[string]string) { d[keyUsername] = `[""]` },
		"an empty prefix": func(d map[string]string) { d[keyExtra] = `[""]` },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthenticator(ca.text)
			if a.Fault() != nil {
				t.Fatal(a.Fault())
			}
			d := data(ca.text)
			change(d)
			a.set(Name, d)
			got, ok, _ := a.AuthenticateRequest(&http.Request{TLS: peer, Header: header("X-Remote-User: root")})
			if ok || got != nil || a.Fault() == nil || a.Authorities() != nil {
				t.Errorf("got %+v, %v", got, a.Fault())
			}
		})
	}
	d := data(ca.text)
	delete(d, keyNames) // any name of that authority, as kube-apiserver documents it
	a := &Authenticator{Now: time.Now}
	a.set(Name, d)
	other := ca.client(t, "other", x509.ExtKeyUsageClientAuth, time.Time{})
	if _, ok, err := a.AuthenticateRequest(&http.Request{TLS: other, Header: header("X-Remote-User: ann")}); !ok {
		t.Error("without names, any name of the authority counts:", err)
	}
}

// The ConfigMap is followed: another authority counts at once, and a deleted one authenticates nobody.
func TestTheConfigMapIsFollowed(t *testing.T) { // O29, O35
	old, next := newAuthority(t), newAuthority(t)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name}, Data: data(old.text)}
	client := fake.NewClientset(object, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "other"}, Data: data(next.text)})
	maps := kapistest.ListFirst(client).CoreV1().ConfigMaps(Namespace)
	a := &Authenticator{Now: time.Now}
	if a.Fault() == nil {
		t.Error("nothing is read yet, and nothing is missing")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.Run(ctx, maps) }()
	defer func() { cancel(); <-done }()
	is := func(what string, ca *authority, want bool) {
		t.Helper()
		r := &http.Request{TLS: ca.client(t, "front-proxy-client", x509.ExtKeyUsageClientAuth, time.Time{}), Header: header("X-Remote-User: ann")}
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			_, ok, _ := a.AuthenticateRequest(r)
			if ok == want && (a.Verify(r) == nil) == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: authenticated is %v, want %v", what, ok, want)
			}
		}
	}
	is("the first authority", old, true)
	is("one that comes later", next, false)
	object.Data = data(old.text + next.text)
	if _, err := maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	is("the one that is added", next, true)
	is("the one before", old, true)
	object.Data = data(next.text)
	if _, err := maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	is("the one that is taken out", old, false)
	if err := maps.Delete(ctx, Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	is("without a ConfigMap", next, false)
	if a.Fault() == nil {
		t.Error("the ConfigMap is gone, and nothing is missing")
	}
}

// O49: before the ConfigMap is read, it can't be told who the peer is; once it is known that there is none, it can.
func TestO49BeforeTheConfigMapIsReadNobodyIsRefusedForGood(t *testing.T) {
	by := newAuthority(t)
	r := &http.Request{TLS: by.client(t, "front-proxy", x509.ExtKeyUsageClientAuth, time.Time{}), Header: header("X-Remote-User: ann")}
	a := &Authenticator{Now: time.Now}
	if _, ok, err := a.AuthenticateRequest(r); ok || !apierrors.IsServiceUnavailable(err) {
		t.Errorf("%v, %v", ok, err)
	}
	a.state.Store(&state{fault: errMissing})
	if _, ok, err := a.AuthenticateRequest(r); ok || err == nil || apierrors.IsServiceUnavailable(err) {
		t.Errorf("there is none: %v, %v", ok, err)
	}
}
