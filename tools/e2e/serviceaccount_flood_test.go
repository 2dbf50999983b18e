package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// S68: while strangers send service account tokens of their own making, more at once than are ever asked about, a real pod is answered each time,
// with tokens that the server has never seen, from the same address; and kube-apiserver is asked about few of the forged ones.
func TestForgedServiceAccountTokensCostARealPodNothing(t *testing.T) {
	proves(t, "S68")
	cfg, c := cluster(t)
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	namespace := newNamespace(t)
	if err := c.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod"}}); err != nil {
		t.Fatal(err)
	}
	request := func(audience ...string) string {
		t.Helper()
		r, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "pod",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audience}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Token
	}
	const review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	self := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
	pod := func(ctx context.Context, token string) error {
		r, err := caller{product.URL, token}.do(ctx, http.MethodPost, review, self)
		if err == nil && (r.code != http.StatusCreated || !strings.Contains(r.body, "system:serviceaccount:"+namespace+":pod")) {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	}
	genuine := request()
	eventually(t, "the pod is known", func(ctx context.Context) error { return pod(ctx, genuine) })
	caller{product.URL, request("vault")}.must(t, http.StatusUnauthorized, http.MethodPost, review, self)

	forge := forger(t, genuine)
	reviews := func() float64 { return reviewsOf(t, kube) }
	before, began := reviews(), time.Now()
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	var sent, limited, refused atomic.Int64
	for range 200 {
		flood.Go(func() {
			for ctx.Err() == nil {
				r, err := caller{product.URL, forge()}.do(ctx, http.MethodGet, "/api/v1/namespaces", nil)
				switch {
				case err != nil: // at the end of the flood
				case r.code == http.StatusUnauthorized:
					refused.Add(1)
				case r.code == http.StatusTooManyRequests && r.header.Get("Retry-After") != "":
					limited.Add(1)
				case r.code == http.StatusServiceUnavailable && r.header.Get("Retry-After") != "": // kube-apiserver is kept busy by others
				default:
					t.Errorf("%d %s", r.code, clip(r.body))
				}
				sent.Add(1)
			}
		})
	}
	for range 40 {
		token := request()
		for range 3 {
			if err := pod(t.Context(), token); err != nil {
				t.Errorf("the real pod: %v", err)
			}
		}
	}
	eventually(t, "the flood is one", func(context.Context) error {
		if n := sent.Load(); n < 2000 || limited.Load() == 0 || refused.Load() == 0 {
			return fmt.Errorf("%d sent so far, %d limited and %d refused", n, limited.Load(), refused.Load())
		}
		return nil
	})
	stop()
	flood.Wait()
	seconds := time.Since(began).Seconds()
	// 40 of the pod, the refusals that an address has, those under way besides, and the first answers of what was known before.
	most := 40*(1+seconds/5) + 20 + 5*seconds + 16 + 10
	if n := reviews() - before; n > most || float64(sent.Load()) < most {
		t.Errorf("kube-apiserver was asked %v times because of %d tokens in %.0f s, %.0f are the most", n, sent.Load(), seconds, most)
	}
	eventually(t, "the pod is known afterwards", func(ctx context.Context) error { return pod(ctx, genuine) })
}

// forger makes tokens that no two are alike: signed by a stranger, in the name of the cluster's own key or of an unknown one.
func forger(t *testing.T, genuine string) func() string {
	t.Helper()
	var header struct {
		KeyID string `json:"kid"`
	}
	var claims jwt.MapClaims
	parts := strings.Split(genuine, ".")
	for i, into := range []any{&header, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	return func() string {
		forged := jwt.MapClaims{"jti": "forged-" + strconv.FormatInt(n.Add(1), 10)}
		for name, v := range claims {
			if name != "jti" {
				forged[name] = v
			}
		}
		j := jwt.NewWithClaims(jwt.SigningMethodES256, forged)
		if j.Header["kid"] = header.KeyID; n.Load()%2 == 0 {
			j.Header["kid"] = "unknown"
		}
		s, err := j.SignedString(key)
		if err != nil {
			panic(err)
		}
		return s
	}
}

// reviewsOf is how many TokenReviews kube-apiserver has answered.
func reviewsOf(t *testing.T, kube kubernetes.Interface) (n float64) {
	t.Helper()
	raw, err := kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if name, value, ok := strings.Cut(line, "} "); ok && strings.HasPrefix(name, "apiserver_request_total{") &&
			strings.Contains(name, `resource="tokenreviews"`) {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			n += v
		}
	}
	return n
}
