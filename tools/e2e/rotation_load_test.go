package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// rotationLoad asks both replicas and the webhooks all the time, and remembers what failed.
type rotationLoad struct {
	mu     sync.RWMutex // held for reading while a request is under way with the token
	token  tokenReply
	asked  atomic.Int64
	failed atomic.Int64
	wait   sync.WaitGroup
}

// every calls f at each tick until the context ends. What its end cuts off has not failed.
func (l *rotationLoad) every(ctx context.Context, t *testing.T, what string, d time.Duration, f func(context.Context) error) {
	l.wait.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			err := f(ctx)
			if ctx.Err() != nil {
				return
			}
			l.asked.Add(1)
			if err != nil && l.failed.Add(1) <= 10 {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// get returns a request with the newest token.
func (l *rotationLoad) get(base, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return caller{base, l.token.Access}.is(http.StatusOK, http.MethodGet, path)(ctx)
	}
}

func (l *rotationLoad) current() tokenReply {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.token
}

// startRotationLoad starts about 30 requests a second on each of the replicas, and returns the load with a function that ends it.
func (w *rotatedWorld) startRotationLoad(t *testing.T) (*rotationLoad, func()) {
	l := &rotationLoad{token: tokens(t, w.bases[0], "admin", w.password)}
	ctx, cancel := context.WithCancel(t.Context())
	for i, base := range w.bases {
		l.every(ctx, t, "list", 100*time.Millisecond, l.get(base, "/kapis/resources.kubesphere.io/v1alpha3/namespaces?limit=5"))
		l.every(ctx, t, "watch", time.Second, l.watch(base))
		l.every(ctx, t, "login", 2*time.Second, func(ctx context.Context) error {
			return tokenAnswer(passwordGrant(ctx, base, "admin", w.password))
		})
		l.every(ctx, t, "a connection by TLS", 200*time.Millisecond, func(ctx context.Context) error {
			_, err := w.served(ctx, w.secure[i])
			return err
		})
	}
	turn := 0
	l.every(ctx, t, "refresh", time.Second, func(ctx context.Context) error {
		turn++
		r, err := tokenCall(ctx, w.bases[turn%2], url.Values{"grant_type": {"refresh_token"}, "refresh_token": {l.current().Refresh}})
		if err := tokenAnswer(r, err); err != nil {
			return err
		}
		l.mu.Lock()
		l.token = decode[tokenReply](t, r.body)
		l.mu.Unlock()
		return nil
	})
	l.every(ctx, t, "a write that a webhook changes", 200*time.Millisecond, func(ctx context.Context) error {
		u, err := w.root.Resource(iamResource("users")).Create(ctx, &unstructured.Unstructured{Object: obj{
			"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User", "metadata": obj{"name": "rotated"},
			"spec": obj{"email": "rotated@example.com", "password": password},
		}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if hash, _, _ := unstructured.NestedString(u.Object, "spec", "password"); !strings.HasPrefix(hash, "$2") {
			return fmt.Errorf("the password is %d characters, and no hash", len(hash))
		}
		return nil
	})
	return l, func() { cancel(); l.wait.Wait() }
}

// watch returns a watch that goes on for a second from the version of a list.
func (l *rotationLoad) watch(base string) func(context.Context) error {
	return func(ctx context.Context) error {
		const path = "/kapis/resources.kubesphere.io/v1alpha3/namespaces?"
		l.mu.RLock()
		r, err := caller{base, l.token.Access}.do(ctx, http.MethodGet, path+"limit=1", nil)
		l.mu.RUnlock()
		if err != nil || r.code != http.StatusOK {
			return fmt.Errorf("list: %d %s %w", r.code, clip(r.body), err)
		}
		_, version, _ := strings.Cut(r.body, `"resourceVersion":"`)
		version, _, _ = strings.Cut(version, `"`)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path+"watch=true&timeoutSeconds=1&resourceVersion="+version, http.NoBody)
		if err != nil {
			return err
		}
		l.mu.RLock() // until it is answered, and not until it ends
		req.Header.Set("Authorization", "Bearer "+l.token.Access)
		resp, err := transport.RoundTrip(req)
		l.mu.RUnlock()
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || strings.Contains(string(body), `"ERROR"`) {
			return fmt.Errorf("watch from %q: %d %s %w", version, resp.StatusCode, clip(string(body)), err)
		}
		return nil
	}
}

func tokenAnswer(r reply, err error) error {
	if err == nil && r.code != http.StatusOK {
		err = fmt.Errorf("%d %s", r.code, clip(r.body))
	}
	return err
}

// served makes a new connection, as each of the load is, and returns the serial number of the certificate. One of the two must vouch for it.
func (w *rotatedWorld) served(ctx context.Context, address string) (string, error) {
	d := tls.Dialer{Config: &tls.Config{RootCAs: w.trusted.Load(), ServerName: "localhost", MinVersion: tls.VersionTLS12}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil //nolint:forcetypeassert // of a tls.Dialer
}
