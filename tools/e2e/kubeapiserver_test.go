package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// trusting is kube-apiserver's structured authentication with our issuer, as docs/kubectl.md shows it.
const trusting = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: %s
    audiences: [kubectl, %s]
    audienceMatchPolicy: MatchAny
    certificateAuthority: |
%s
  claimMappings:
    username:
      claim: preferred_username
      prefix: ""
    groups:
      claim: groups
      prefix: ""
    uid:
      claim: sub
`

// reviewing is the kubeconfig of kube-apiserver's token webhook.
const reviewing = `apiVersion: v1
kind: Config
current-context: ks
clusters:
- name: ks
  cluster:
    server: %s/oauth/authenticate
    certificate-authority-data: %s
contexts:
- name: ks
  context: {cluster: ks, user: none}
users:
- name: none
`

const (
	// webhookCache is how long kube-apiserver keeps the webhook's answers, and ownCache how long what it made of them: the
	// latter is no option of it.
	webhookCache = 2 * time.Second
	ownCache     = 10 * time.Second
)

// kubeAPIServer is another kube-apiserver of the same cluster, which trusts our issuer and asks our webhook.
type kubeAPIServer struct{ *rest.Config }

func startKubeAPIServer(t *testing.T, issuer, audience string) kubeAPIServer {
	t.Helper()
	dir := t.TempDir()
	_, ca, _ := authority(t)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	indented := "      " + strings.ReplaceAll(strings.TrimSpace(string(ca)), "\n", "\n      ")
	own := reservedPort(t)
	pid, ok := product.Process("kube-apiserver")
	if !ok {
		t.Fatal("no kube-apiserver runs that could be copied")
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")[1:]
	args = slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "--audit-") })
	args = append(args, fmt.Sprintf("--secure-port=%s", own),
		"--authentication-config="+file("authentication.yaml", fmt.Sprintf(trusting, issuer, audience, indented)),
		"--authentication-token-webhook-config-file="+file("webhook.kubeconfig", fmt.Sprintf(reviewing, product.TLSURL, base64.StdEncoding.EncodeToString(ca))),
		"--authentication-token-webhook-version=v1", "--authentication-token-webhook-cache-ttl="+webhookCache.String())
	log, err := os.Create(filepath.Join(product.Dir, "log", "kube-apiserver-trusting.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(product.Program("dev"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it shares its data with the one that stays
		_ = cmd.Wait()
		log.Close()
	})
	admin, err := product.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	admin.Host = fmt.Sprintf("https://127.0.0.1:%s", own)
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "kube-apiserver is ready", func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	return kubeAPIServer{rest.AnonymousClientConfig(admin)}
}

// whois asks kube-apiserver whose a token is.
func (k kubeAPIServer) whois(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	c := rest.CopyConfig(k.Config)
	c.BearerToken = token
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	r, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &r.Status.UserInfo, nil
}

// refuses is a condition: a token is nobody's.
func (k kubeAPIServer) refuses(token string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := k.whois(ctx, token)
		if apierrors.IsUnauthorized(err) {
			return nil
		}
		return fmt.Errorf("it is taken for %+v, %w", u, err)
	}
}

// grant logs a user in with a password, as a client that may, and returns both tokens.
func grant(t *testing.T, client, user, scope string) (access, id string) {
	t.Helper()
	form := url.Values{"grant_type": {"password"}, "username": {user}, "password": {password}, "scope": {scope},
		"client_id": {client}, "client_secret": {"a secret that is long enough"}}
	if client == "kubesphere" {
		form.Set("client_secret", "kubesphere")
	}
	r := anonymous().must(t, http.StatusOK, http.MethodPost, "/oauth/token", form.Encode(), "Content-Type: application/x-www-form-urlencoded")
	got := decode[struct {
		Access string `json:"access_token"`
		ID     string `json:"id_token"`
	}](t, r.body)
	return got.Access, got.ID
}

// newClient registers a trusted OAuth client whose tokens live for some seconds.
func newClient(t *testing.T, seconds int) string {
	t.Helper()
	name := unique("trusted")
	admin(t).create(t, "/api/v1/namespaces/kubesphere-system/secrets", map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "config.kubesphere.io/oauthclient",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"config.kubesphere.io/type": "oauthclient"}},
		"stringData": map[string]any{"configuration.yaml": fmt.Sprintf(
			"name: %s\nsecret: a secret that is long enough\ntrusted: true\naccessTokenMaxAgeSeconds: %d\naccessTokenInactivityTimeoutSeconds: 600\n", name, seconds)},
	})
	eventually(t, "the client is known", func(ctx context.Context) error {
		r, err := anonymous().do(ctx, http.MethodPost, "/oauth/token",
			url.Values{"client_id": {name}, "client_secret": {"a secret that is long enough"}}.Encode(), "Content-Type: application/x-www-form-urlencoded")
		if err == nil && !strings.Contains(r.body, "grant_type") {
			err = fmt.Errorf("%d %s", r.code, r.body)
		}
		return err
	})
	return name
}

func tampered(token string) string {
	i := strings.LastIndexByte(token, '.') + 10
	c := byte('A')
	if token[i] == c {
		c = 'B'
	}
	return token[:i] + string(c) + token[i+1:]
}

// A kube-apiserver that is configured with our issuer takes our ID tokens (OpenID Connect Core 1.0, 2), and one that is configured
// with our webhook our access tokens (TokenReview).
func TestKubeAPIServerTrustsOurTokens(t *testing.T) {
	doc := decode[struct {
		Issuer string `json:"issuer"`
	}](t, anonymous().must(t, http.StatusOK, http.MethodGet, "/.well-known/openid-configuration", nil).body)
	if !strings.HasPrefix(doc.Issuer, "https://localhost:") {
		t.Fatalf("the issuer is %s", doc.Issuer)
	}
	name, short := unique("kube"), newClient(t, 3)
	newUser(t, name)
	merge := "Content-Type: application/merge-patch+json"
	admin(t).must(t, http.StatusOK, http.MethodPatch, "/apis/iam.kubesphere.io/v1beta1/users/"+name, `{"spec":{"groups":["dev","ops"]}}`, merge)
	eventually(t, "the groups count", func(context.Context) error {
		if access, _ := grant(t, "kubesphere", name, "openid profile groups"); !strings.Contains(payload(t, access), `"ops"`) {
			return fmt.Errorf("the token says %s", payload(t, access))
		}
		return nil
	})
	k := startKubeAPIServer(t, doc.Issuer, short)
	isAlice := func(t *testing.T, u *authenticationv1.UserInfo, err error) {
		t.Helper()
		if err != nil || u.Username != name || u.UID == "" || !slices.Contains(u.Groups, "dev") || !slices.Contains(u.Groups, "ops") {
			t.Errorf("%+v, %v", u, err)
		}
	}
	// Its authenticator fetches our keys once it has started.
	access, id := grant(t, short, name, "openid profile groups")
	eventually(t, "an ID token is taken", func(ctx context.Context) error {
		access, id = grant(t, short, name, "openid profile groups")
		u, err := k.whois(ctx, id)
		if err == nil {
			isAlice(t, u, nil)
		}
		return err
	})
	t.Run("ATamperedIDTokenIsRefused", func(t *testing.T) { // S28
		_, fresh := grant(t, short, name, "openid profile groups")
		if err := k.refuses(tampered(fresh))(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("AnExpiredIDTokenIsRefused", func(t *testing.T) {
		eventually(t, "it is refused", k.refuses(id))
	})
	t.Run("AnIDTokenForAnotherClientIsRefused", func(t *testing.T) { // S32
		_, other := grant(t, "kubesphere", name, "openid profile groups")
		if err := k.refuses(other)(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("TheWebhookTakesAccessTokens", func(t *testing.T) { // T7662-5
		access, _ = grant(t, "kubesphere", name, "openid profile groups")
		u, err := k.whois(t.Context(), access)
		isAlice(t, u, err)
		if err := k.refuses(tampered(access))(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("AndRefusesThoseOfALoginThatIsOver", func(t *testing.T) { // S36
		caller{product.URL, access}.must(t, http.StatusOK, http.MethodGet, "/oauth/logout", nil)
		within(t, revocation+webhookCache+ownCache, "the token is refused", k.refuses(access))
	})
}

// payload is what a JWT says.
func payload(t *testing.T, jwt string) string {
	t.Helper()
	_, p := claims(t, jwt)
	return encode(t, p)
}
