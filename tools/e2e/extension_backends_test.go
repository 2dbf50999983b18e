package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"kapis.dev/ks-apiserver/tools/port"
)

// backendProgram is a program of others that is the backend of an extension.
type backendProgram struct {
	file, log string
	port      int
	args      []string
	running   *program
}

// buildProgram builds a program of a module, and returns its file.
func buildProgram(t *testing.T, module, pkg string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), filepath.Base(pkg))
	// As tools/dev/build.sh builds Kubernetes, so that it is compiled once.
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, pkg)
	build.Dir, build.Env = module, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", pkg, err, out)
	}
	return file
}

// newBackendProgram builds a program of a module.
func newBackendProgram(t *testing.T, module, pkg string) *backendProgram {
	t.Helper()
	file := buildProgram(t, module, pkg)
	b := &backendProgram{file: file, log: filepath.Join(filepath.Dir(file), "log")}
	var err error
	if b.port, err = port.Reserve(); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *backendProgram) start(t *testing.T) {
	t.Helper()
	b.running = launch(t, b.log, b.file, b.args...)
}

// sampleServer is k8s.io/sample-apiserver: an API server as others build one with k8s.io/apiserver, which believes ks-apiserver's client
// certificate about who asks, asks kube-apiserver what they may do, and keeps what is written in etcd.
type sampleServer struct {
	*backendProgram
	authority []byte
	audit     string
}

func newSampleServer(t *testing.T) *sampleServer {
	t.Helper()
	dir := t.TempDir()
	s := &sampleServer{backendProgram: newBackendProgram(t, "../dev", "k8s.io/sample-apiserver"), audit: filepath.Join(dir, "audit.log")}
	text, err := os.ReadFile(filepath.Join(product.Dir, "run", "ports.json"))
	var ports struct{ Etcd int }
	if err := errors.Join(err, json.Unmarshal(text, &ports)); err != nil {
		t.Fatal(err)
	}
	proof := decode[struct{ Data map[string]string }](t, admin(t).must(t, http.StatusOK, http.MethodGet,
		"/api/v1/namespaces/kubesphere-system/configmaps/extension-apiserver-authentication", nil).body).Data
	policy, proofFile := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "proof.pem")
	err = errors.Join(os.WriteFile(policy, []byte(`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"Metadata"}]}`), 0o600),
		os.WriteFile(proofFile, []byte(proof["requestheader-client-ca-file"]), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	etcd, kubeconfig := filepath.Join(product.Dir, "pki", "etcd-"), filepath.Join(product.Dir, "kubeconfig")
	s.args = []string{
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(s.port),
		"--tls-cert-file=" + filepath.Join(dir, "tls.crt"), "--tls-private-key-file=" + filepath.Join(dir, "tls.key"),
		"--etcd-servers=https://127.0.0.1:" + strconv.Itoa(ports.Etcd), "--etcd-cafile=" + etcd + "ca.crt", "--etcd-certfile=" + etcd + "client.crt",
		"--etcd-keyfile=" + etcd + "client.key",
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--authentication-skip-lookup", // kube-apiserver's own proxy is not believed
		"--requestheader-client-ca-file=" + proofFile,
		"--audit-policy-file=" + policy, "--audit-log-path=" + s.audit,
	}
	for flag, key := range map[string]string{"allowed-names": "allowed-names", "username-headers": "username-headers", "uid-headers": "uid-headers",
		"group-headers": "group-headers", "extra-headers-prefix": "extra-headers-prefix"} {
		s.args = append(s.args, "--requestheader-"+flag+"="+strings.Join(decode[[]string](t, proof["requestheader-"+key]), ","))
	}
	s.certify(t)
	s.start(t)
	direct, done := s.direct()
	defer done()
	eventually(t, "it is ready", func(ctx context.Context) error {
		r, err := direct(ctx, "/readyz")
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	return s
}

// direct returns what asks it without ks-apiserver, until done is called.
func (s *sampleServer) direct() (ask func(ctx context.Context, path string, headers ...string) (reply, error), done func()) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.authority)
	by := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	return func(ctx context.Context, path string, headers ...string) (reply, error) {
		return caller{base: "https://localhost:" + strconv.Itoa(s.port)}.via(ctx, by, http.MethodGet, path, nil, headers...)
	}, by.CloseIdleConnections
}

// certify gives it another certificate, of another authority.
func (s *sampleServer) certify(t *testing.T) {
	t.Helper()
	certificate, authority := certificateOf(t, "localhost")
	der, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	dir := filepath.Dir(s.audit)
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "tls.crt"), authority, 0o600),
		os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	s.authority = authority
}

// asked returns who has asked it for what, by its audit log.
func (s *sampleServer) asked(t *testing.T) (all []sampleEvent) {
	t.Helper()
	text, err := os.ReadFile(s.audit)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, "\n") { // the last one may just be being written
			all = append(all, decode[sampleEvent](t, line))
		}
	}
	return all
}

type sampleEvent struct {
	RequestURI, Verb string
	User             struct {
		Username, UID string
		Groups        []string
	}
}

// X2, X5, X6, X9, X10, X11, X12: an API server that others have built serves a group, over TLS that is verified both ways: it knows who asks, and decides by
// that itself. Its objects are listed, watched and written, and described, through ks-apiserver. Where it is away, or is another one, that is told, and
// nothing else suffers; it comes back by itself.
func TestX5AnAPIServerOfOthersIsABackend(t *testing.T) {
	a, s, ns, name := admin(t), newSampleServer(t), newNamespace(t), unique("buyer")
	const group, service = "wardle.example.com", extensionsAPI + "/apiservices/v1alpha1.wardle.example.com"
	base := "/kapis/" + group + "/v1alpha1"
	flunders := base + "/namespaces/" + ns + "/flunders"
	address := "https://localhost:" + strconv.Itoa(s.port)
	flunder := func(name string) obj {
		return obj{"apiVersion": group + "/v1alpha1", "kind": "Flunder", "metadata": obj{"name": name}}
	}
	object := extensionObject("APIService", "v1alpha1."+group, obj{"group": group, "version": "v1alpha1", "url": address})
	object["metadata"].(obj)["annotations"] = obj{"kapis.dev/backend-root": "/apis"}

	step(t, "it is not believed by a certificate of an unknown authority", func(t *testing.T) {
		a.must(t, http.StatusCreated, http.MethodPost, extensionsAPI+"/apiservices", object)
		eventually(t, "that is told", a.is(http.StatusBadGateway, http.MethodGet, flunders))
	})
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, service, nil) })
	step(t, "its authority counts at once", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodPatch, service, obj{"spec": obj{"caBundle": s.authority}}, asMerge)
		eventually(t, "it answers", a.answersWith(http.StatusOK, flunders, `"kind":"FlunderList"`))
		eventually(t, "it is noted that it answers", a.answersWith(http.StatusOK, service, `"status":"True"`))
	})
	buyer, nobody := newUser(t, name), newUser(t, unique("nobody"))
	role(t, ns, name, rule{[]string{group}, []string{"flunders"}, []string{"get", "list", "watch", "create", "update", "patch", "delete"}})
	bind(t, ns, name, obj{"kind": "User", "name": name})
	step(t, "it knows who asks, and asks kube-apiserver what they may do", func(t *testing.T) {
		eventually(t, "the right counts here and there", buyer.accepts(http.StatusCreated, http.MethodPost, flunders+"?dryRun=All", flunder("none")))
		nobody.must(t, http.StatusForbidden, http.MethodGet, flunders, nil)
		buyer.must(t, http.StatusOK, http.MethodGet, flunders+"?limit=7", nil, "X-Remote-User: admin", "X-Remote-Group: system:masters")
		eventually(t, "its audit log says so", func(context.Context) error {
			all := s.asked(t)
			i := slices.IndexFunc(all, func(e sampleEvent) bool {
				return e.RequestURI == "/apis/"+strings.TrimPrefix(flunders, "/kapis/")+"?limit=7"
			})
			if i < 0 {
				return fmt.Errorf("of %d requests there is none", len(all))
			}
			if u := all[i].User; u.Username != name || u.UID == "" || strings.Contains(fmt.Sprint(u.Groups), "kapis:") || slices.Contains(u.Groups, "system:masters") {
				t.Fatalf("it was told %+v", u)
			}
			return nil
		})
	})
	step(t, "nobody but ks-apiserver says who asks", func(t *testing.T) {
		direct, done := s.direct()
		defer done()
		r, err := direct(t.Context(), strings.Replace(flunders, "/kapis/", "/apis/", 1), "X-Remote-User: admin", "X-Remote-Group: system:masters")
		if err != nil || r.code != http.StatusForbidden || !strings.Contains(r.body, "system:anonymous") {
			t.Errorf("%d %s %v", r.code, clip(r.body), err)
		}
	})
	step(t, "its objects are written, watched and listed", func(t *testing.T) {
		lines, _ := buyer.lines(t, flunders+"?watch=true&resourceVersion=0")
		buyer.must(t, http.StatusCreated, http.MethodPost, flunders, flunder("first"))
		until(t, "the watch tells of it", lines, func(l string) bool { return strings.Contains(l, `"ADDED"`) && strings.Contains(l, `"name":"first"`) })
		buyer.must(t, http.StatusOK, http.MethodPatch, flunders+"/first", obj{"metadata": obj{"labels": obj{"a": "b"}}}, asMerge)
		until(t, "the watch tells of the change", lines, func(l string) bool { return strings.Contains(l, `"MODIFIED"`) })
		buyer.must(t, http.StatusConflict, http.MethodPost, flunders, flunder("first"))
		if names := buyer.list(t, flunders+"?labelSelector=a%3Db").names(); !slices.Equal(names, []string{"first"}) {
			t.Errorf("%q", names)
		}
		broken := flunder("broken")
		broken["spec"] = obj{"referenceType": "Flunder"} // of none
		buyer.must(t, http.StatusUnprocessableEntity, http.MethodPost, flunders, broken)
		buyer.must(t, http.StatusOK, http.MethodDelete, flunders+"/first", nil)
		until(t, "the watch tells of its end", lines, func(l string) bool { return strings.Contains(l, `"DELETED"`) })
		buyer.must(t, http.StatusNotFound, http.MethodGet, flunders+"/first", nil)
	})
	step(t, "it is described", func(t *testing.T) {
		index := fmt.Sprintf("%q:{%q:", strings.TrimPrefix(base, "/"), "serverRelativeURL")
		eventually(t, "the index has it", a.answersWith(http.StatusOK, "/openapi/v3", index))
		path := fmt.Sprintf("%q", base+"/namespaces/{namespace}/flunders/{name}")
		a.answers(t, "/openapi/v3"+base, path, "wardle.example.com_v1alpha1_")
		eventually(t, "version 2 has it", a.answersWith(http.StatusOK, "/openapi/v2", path))
		eventually(t, "discovery has it", buyer.answersWith(http.StatusOK, base, `"kind":"Flunder"`))
		buyer.answers(t, base, `"name":"flunders"`, `"namespaced":true`, `"watch"`)
		buyer.answers(t, "/kapis/"+group, `"preferredVersion":{"groupVersion":"wardle.example.com/v1alpha1"`)
		buyer.answers(t, "/kapis", `"groupVersion":"wardle.example.com/v1alpha1"`)
	})
	step(t, "where it is gone, that is told, and nothing else suffers", func(t *testing.T) {
		lines, ended := buyer.lines(t, flunders+"?watch=true&resourceVersion=0")
		buyer.must(t, http.StatusCreated, http.MethodPost, flunders, flunder("kept"))
		until(t, "the watch tells of it", lines, func(l string) bool { return strings.Contains(l, `"name":"kept"`) })
		s.running.kill()
		select {
		case <-ended:
		case <-after(t, patience):
			t.Error("a watch goes on without its backend")
		}
		eventually(t, "it is told", a.answersWith(http.StatusServiceUnavailable, flunders, "BackendUnavailable"))
		eventually(t, "the breaker is open", func(ctx context.Context) error { // after failures within seconds, and for seconds
			r, err := a.do(ctx, http.MethodGet, flunders, nil)
			if err == nil && r.code != http.StatusServiceUnavailable {
				t.Fatalf("%d %s", r.code, clip(r.body))
			}
			if err == nil && (r.header.Get("Retry-After") == "" || !strings.Contains(r.body, "tried again soon")) {
				err = fmt.Errorf("%v %s", r.header, r.body)
			}
			return err
		})
		a.must(t, http.StatusOK, http.MethodGet, kapis+"/namespaces", nil)
		a.must(t, http.StatusOK, http.MethodGet, "/openapi/v3"+base, nil) // its description stays for a while
	})
	step(t, "it comes back", func(t *testing.T) {
		s.start(t)
		eventually(t, "it answers", buyer.answersWith(http.StatusOK, flunders, `"name":"kept"`))
	})
	step(t, "another authority is none that was named", func(t *testing.T) {
		s.running.kill()
		s.certify(t)
		s.start(t)
		eventually(t, "it is not believed", buyer.is(http.StatusBadGateway, http.MethodGet, flunders))
		a.must(t, http.StatusOK, http.MethodPatch, service, obj{"spec": obj{"caBundle": s.authority}}, asMerge)
		eventually(t, "it is, once it is named", buyer.is(http.StatusOK, http.MethodGet, flunders))
	})
}

// X4, X5, X8, X9, X10: a program that knows nothing of this platform is served below a path of its own: requests, uploads, answers in chunks and WebSockets
// pass. A user who keeps it busy keeps nobody else from it. Where it ends, that is told, and it comes back by itself.
func TestX9AProgramOfOthersIsBelowAPath(t *testing.T) {
	a, b, name := admin(t), newBackendProgram(t, "../podinfo", "github.com/stefanprodan/podinfo/cmd/podinfo"), unique("podinfo")
	b.args = []string{"--host=127.0.0.1", "--port=" + strconv.Itoa(b.port), "--level=debug"}
	b.start(t)
	root, who := "/proxy/"+name, unique("visitor")
	a.create(t, extensionsAPI+"/reverseproxies", extensionObject("ReverseProxy", name, obj{
		"matcher": obj{"path": root + "/*", "method": "*"}, "upstream": obj{"url": "http://127.0.0.1:" + strconv.Itoa(b.port)},
		"directives": obj{"stripPathPrefix": root, "authProxy": true, "headerUp": []string{"+X-Webauth-User {user.name}"}}}))
	a.create(t, iamAPI+"/globalroles", iamObject("GlobalRole", who, obj{
		"rules": []obj{{"nonResourceURLs": []string{root + "/*"}, "verbs": []string{"*"}}}}))
	u := newUser(t, who)
	bindGlobal(t, who, who)
	eventually(t, "it is served", u.answersWith(http.StatusOK, root+"/version", `"version"`))

	step(t, "it is told who asks", func(t *testing.T) {
		told := decode[map[string][]string](t, u.must(t, http.StatusOK, http.MethodGet, root+"/headers", nil, "X-Remote-User: admin",
			"Cookie: token="+u.token, "X-Webauth-User: admin").body)
		if !slices.Equal(told["X-Remote-User"], []string{who}) || !slices.Contains(told["X-Webauth-User"], who) || strings.Contains(fmt.Sprint(told), u.token) {
			t.Errorf("it is told %v", told)
		}
	})
	step(t, "what it answers arrives", func(t *testing.T) {
		upload := strings.Repeat("x", 8<<20)
		if got := u.must(t, http.StatusAccepted, http.MethodPost, root+"/echo", upload).body; got != upload {
			t.Errorf("of an upload of %d bytes, %d come back", len(upload), len(got))
		}
		u.answersAs(t, http.StatusOK, root+"/chunked/1", `"delay"`)
		u.answersAs(t, http.StatusTeapot, root+"/status/418", "")
		u.answersAs(t, http.StatusBadGateway, root+"/status/401", "BackendUnauthorized") // the login has not ended
		u.must(t, http.StatusOK, http.MethodGet, root+"/version", nil)
	})
	step(t, "a WebSocket passes", func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		conn, _, err := websocket.Dial(ctx, u.base+root+"/ws/echo", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + u.token}}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		if err := conn.Write(ctx, websocket.MessageText, []byte("hello from "+who)); err != nil {
			t.Fatal(err)
		}
		for {
			_, frame, err := conn.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(frame), "hello from "+who) {
				break
			}
		}
	})
	step(t, "one user who keeps it busy keeps nobody else from it", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		defer waiting.Wait()
		defer stop()
		for range 65 { // one more than may be: what looks takes the place of one
			waiting.Go(func() {
				for ctx.Err() == nil {
					_, _ = u.do(ctx, http.MethodGet, root+"/delay/25", nil)
				}
			})
		}
		eventually(t, "the user has as many requests as one may have", u.is(http.StatusTooManyRequests, http.MethodGet, root+"/version"))
		a.must(t, http.StatusOK, http.MethodGet, root+"/version", nil)
		u.must(t, http.StatusOK, http.MethodGet, "/kapis/version", nil)
		stop()
		eventually(t, "the user may ask again", u.is(http.StatusOK, http.MethodGet, root+"/version"))
	})
	step(t, "its end is told to who waits for it, and to who comes later", func(t *testing.T) {
		answer := make(chan reply, 1)
		go func() {
			r, _ := u.do(t.Context(), http.MethodGet, root+"/delay/29", nil)
			answer <- r
		}()
		eventually(t, "it is asked", func(context.Context) error {
			if text, err := os.ReadFile(b.log); err != nil || !strings.Contains(string(text), "/delay/29") {
				return errors.Join(err, errors.New("its log does not say so"))
			}
			return nil
		})
		b.running.kill()
		// A request without effects is sent once more if the connection that ended had served another one before, and is refused then.
		r := <-answer
		cut := r.code == http.StatusBadGateway && strings.Contains(r.body, "BackendAnswer")
		refused := r.code == http.StatusServiceUnavailable && strings.Contains(r.body, "BackendUnavailable")
		if !cut && !refused {
			t.Errorf("%d %s", r.code, clip(r.body))
		}
		eventually(t, "it is told", u.answersWith(http.StatusServiceUnavailable, root+"/version", "BackendUnavailable"))
		a.must(t, http.StatusOK, http.MethodGet, kapis+"/namespaces", nil)
	})
	step(t, "it comes back", func(t *testing.T) {
		b.start(t)
		eventually(t, "it answers", u.answersWith(http.StatusOK, root+"/version", `"version"`))
	})
}

// answersAs asks, and fails the test unless the answer has a code, and a text in it.
func (c caller) answersAs(t *testing.T, code int, path, text string) {
	t.Helper()
	if r := c.must(t, code, http.MethodGet, path, nil); !strings.Contains(r.body, text) {
		t.Errorf("GET %s = %s, want %s", path, clip(r.body), text)
	}
}
