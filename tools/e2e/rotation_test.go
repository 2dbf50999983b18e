package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"kapis.dev/ks-apiserver/tools/stack"
)

// rotatedWorld is the product on a control plane of its own, with two replicas of ks-apiserver that serve TLS from the same files.
type rotatedWorld struct {
	*stack.Stack
	root              dynamic.Interface
	client            *kubernetes.Clientset
	bases, secure     []string
	password          string
	certFile, keyFile string
	trusted           atomic.Pointer[x509.CertPool]
}

// TestRotationUnderLoad replaces the signing keys twice, the certificate of the HTTPS port, and the authority of the webhooks, while both
// replicas and the webhooks are asked all the time.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel() // it has a control plane of its own
	w := newRotatedWorld(t)
	load, stop := w.startRotationLoad(t)
	defer stop()

	step(t, "signing keys", func(t *testing.T) { w.rotateSigningKeys(t, load) })
	step(t, "the certificate of the HTTPS port", w.rotateServed)
	step(t, "the authority of the webhooks", w.rotateAuthority)

	stop()
	if n := load.failed.Load(); n != 0 {
		t.Errorf("%d of %d requests failed, want 0", n, load.asked.Load())
	}
	t.Logf("%d requests, %d failed", load.asked.Load(), load.failed.Load())
}

func newRotatedWorld(t *testing.T) *rotatedWorld {
	t.Helper()
	dir := t.TempDir()
	w := &rotatedWorld{certFile: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key")}
	w.trusted.Store(x509.NewCertPool())
	w.writeServed(t)
	o := options
	o.Dir, o.Log, o.Args = filepath.Join(dir, "dev"), nil, nil
	s, err := stack.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.Stack, w.password = s, s.AdminPassword
	for range 2 {
		port := reservedPort(t)
		r, err := s.Replica(t.Context(), "--secure-port="+port, "--tls-cert-file="+w.certFile, "--tls-private-key="+w.keyFile)
		if err != nil {
			t.Fatal(err)
		}
		w.bases, w.secure = append(w.bases, r.URL), append(w.secure, net.JoinHostPort("127.0.0.1", port))
	}
	config, err := s.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	if w.root, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if w.client, err = s.KubeClient(); err != nil {
		t.Fatal(err)
	}
	return w
}

// changeSecret changes a Secret of the product as another replica would.
func (w *rotatedWorld) changeSecret(t *testing.T, name string, change func(map[string][]byte)) {
	t.Helper()
	secrets := w.client.CoreV1().Secrets("kubesphere-system")
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		s, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(s.Data)
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
		return err
	}); err != nil {
		t.Fatalf("change Secret %s: %v", name, err)
	}
}

// changeKeys changes the signing keys in their Secret.
func (w *rotatedWorld) changeKeys(t *testing.T, change func(signing []any) []any) {
	t.Helper()
	w.changeSecret(t, "ks-apiserver-signing-keys", func(data map[string][]byte) {
		set := decode[obj](t, string(data["keyring.json"]))
		set["signing"] = change(set["signing"].([]any))
		data["keyring.json"] = []byte(encode(t, set))
	})
}

// published returns a condition: the key is one of the public keys of both replicas, or of neither.
func (w *rotatedWorld) published(kid string, want bool) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, base := range w.bases {
			r, err := caller{base: base}.do(ctx, http.MethodGet, "/oauth/keys", nil)
			if err != nil {
				return err
			}
			if got := strings.Contains(r.body, `"`+kid+`"`); got != want {
				return fmt.Errorf("%s has the key: %v, want %v", base, got, want)
			}
		}
		return nil
	}
}

// rotateSigningKeys does twice what a replica does every 90 days, without the time between: a new key is published, it signs, and at the
// end of the longest session the old one is removed.
func (w *rotatedWorld) rotateSigningKeys(t *testing.T, load *rotationLoad) {
	signedWith := func(jwt string) string {
		header, _ := claims(t, jwt)
		return fmt.Sprint(header["kid"])
	}
	accepted := func(code int, token string) {
		for i, base := range w.bases {
			what := fmt.Sprintf("replica %d answers %d to the token of %s", i, code, signedWith(token))
			eventually(t, what, caller{base, token}.is(code, http.MethodGet, nodesOfAll))
		}
	}
	for _, next := range []string{"second", "third"} {
		old := load.current().Access
		was := signedWith(old)
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now().UTC() // with its fraction: of two keys of one second, both rounds would have the same one sign
		w.changeKeys(t, func(signing []any) []any {
			return append(signing, obj{"id": next, "algorithm": "RS256", "created": now, "notBefore": now.Add(time.Hour),
				"privateKey": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))})
		})
		eventually(t, "the key is published before it signs", w.published(next, true))
		if got := signedWith(load.current().Access); got != was {
			t.Errorf("tokens are signed with %q before the time of the key, want %q", got, was)
		}
		w.changeKeys(t, func(signing []any) []any {
			for _, k := range signing {
				if k := k.(map[string]any); k["id"] == next {
					k["notBefore"] = now
				}
			}
			return signing
		})
		for _, base := range w.bases {
			eventually(t, "each replica signs with the new key", func(ctx context.Context) error {
				r, err := passwordGrant(ctx, base, "admin", w.password)
				if err = tokenAnswer(r, err); err != nil {
					return err
				}
				if got := signedWith(decode[tokenReply](t, r.body).Access); got != next {
					return fmt.Errorf("signed with %q", got)
				}
				return nil
			})
		}
		seen := map[string]bool{} // the token of before, that of a refresh that was under way, and one of after
		eventually(t, "refreshed tokens are of the new key", func(context.Context) error {
			now := load.current().Access
			seen[now] = true
			if got := signedWith(now); got != next || len(seen) < 3 {
				return fmt.Errorf("signed with %q, after %d refreshes", got, len(seen)-1)
			}
			return nil
		})
		accepted(http.StatusOK, old)
		accepted(http.StatusOK, load.current().Access)
		w.changeKeys(t, func(signing []any) []any {
			var rest []any
			for _, k := range signing {
				if k.(map[string]any)["id"] != was {
					rest = append(rest, k)
				}
			}
			return rest
		})
		eventually(t, "the former key is not published any more", w.published(was, false))
		accepted(http.StatusUnauthorized, old)
		accepted(http.StatusOK, load.current().Access)
	}
}

// writeServed writes a new certificate for the HTTPS port, and trusts it. The key comes first: until both are there, they don't fit.
func (w *rotatedWorld) writeServed(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	n, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: n, Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	trusted := w.trusted.Load().Clone() // the load reads the former one
	trusted.AppendCertsFromPEM(cert)
	w.trusted.Store(trusted)
	if err := errors.Join(os.WriteFile(w.keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600),
		os.WriteFile(w.certFile, cert, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func (w *rotatedWorld) rotateServed(t *testing.T) {
	was, err := w.served(t.Context(), w.secure[0])
	if err != nil {
		t.Fatal(err)
	}
	w.writeServed(t)
	for _, address := range w.secure {
		eventually(t, address+" serves the new certificate", func(ctx context.Context) error {
			now, err := w.served(ctx, address)
			if err == nil && now == was {
				err = errors.New("it is the former one")
			}
			return err
		})
	}
}

// rotateAuthority makes the authority old: the same name and the same key, so that nothing else changes, with few days left.
func (w *rotatedWorld) rotateAuthority(t *testing.T) {
	const name = "ks-controller-manager-webhook"
	secrets := w.client.CoreV1().Secrets("kubesphere-system")
	before, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.changeSecret(t, name, func(data map[string][]byte) { data["ca.crt"] = aged(t, data) })
	var renewed *corev1.Secret
	within(t, 5*time.Minute, "there is a new authority", func(ctx context.Context) error {
		if renewed, err = secrets.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if got := strings.Count(string(renewed.Data["ca.crt"]), "BEGIN CERTIFICATE"); got != 2 {
			return fmt.Errorf("%d authorities are trusted, want the new one and the former one", got)
		}
		return nil
	})
	if string(renewed.Data["tls.crt"]) == string(before.Data["tls.crt"]) {
		t.Error("the serving certificate of the webhooks is the former one")
	}
	eventually(t, "kube-apiserver trusts both", func(ctx context.Context) error {
		l, err := w.client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		found := 0
		for i := range l.Items {
			for _, h := range l.Items[i].Webhooks {
				if strings.HasSuffix(h.Name, "kapis.dev") {
					found++
					if got, want := string(h.ClientConfig.CABundle), string(renewed.Data["ca.crt"]); got != want {
						return fmt.Errorf("the bundle of %s is %d bytes, want the %d bytes of the Secret", h.Name, len(got), len(want))
					}
				}
			}
		}
		if found == 0 {
			return errors.New("there is no webhook of ours")
		}
		return nil
	})
}

// aged returns the authority of a Secret as it is in the last third of its life.
func aged(t *testing.T, data map[string][]byte) []byte {
	t.Helper()
	block, _ := pem.Decode(data["ca.crt"])
	keyBlock, _ := pem.Decode(data["ca.key"])
	if block == nil || keyBlock == nil {
		t.Fatal("the Secret has no authority")
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	old := *ca
	old.NotBefore, old.NotAfter = time.Now().Add(-100*24*time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, &old, &old, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
