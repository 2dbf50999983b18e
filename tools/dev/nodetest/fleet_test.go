package nodetest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// joinsAFleet applies to this cluster what a hub answers for it, and nothing else, asks it through the hub, and takes all away again (F1, F8).
func (p *plane) joinsAFleet() {
	t := p.t
	d := &deployment{plane: p, kube: p.kubeClient()}
	before, err := d.objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{apiserver, manager} {
		d.ctr("import", filepath.Join(d.bin, "images", name+".tar"))
	}
	// The file says nothing of nodes, as those of people do: the one node that runs pods is the one that takes them.
	nodes := strings.Fields(p.kubectl("get", "nodes", "--output", `jsonpath={.items[?(@.metadata.name!="real-0")].metadata.name}`))
	p.kubectl("taint", "node", "real-0", "kapis.dev/real-")
	p.kubectl(append([]string{"cordon"}, nodes...)...)
	defer func() {
		p.kubectl(append([]string{"uncordon"}, nodes...)...)
		p.kubectl("taint", "node", "real-0", "kapis.dev/real=:NoSchedule")
	}()
	h := startHub(p, d.addressForPods())
	defer h.stop()

	clusters := "/apis/cluster.kubesphere.io/v1alpha1/clusters"
	h.ask(http.StatusCreated, http.MethodPost, clusters, `{"apiVersion":"cluster.kubesphere.io/v1alpha1","kind":"Cluster","metadata":{"name":"in-pods"},`+
		`"spec":{"enable":true,"connection":{"type":"proxy"}}}`)
	var file string
	p.eventually("the hub answers what is to be applied", func() (err error) {
		code, text := h.try(http.MethodGet, "/kapis/cluster.kubesphere.io/v1alpha1/clusters/in-pods/agent/deployment", "")
		if file = text; code != http.StatusOK {
			err = fmt.Errorf("%d %s", code, text)
		}
		return err
	})
	p.kubectlIn(file, "apply", "-f", "-")
	for _, name := range []string{apiserver, manager, "ks-agent"} {
		if out, err := p.run("", "kubectl", "--namespace", system, "get", "deployment", name, "--output=name"); err == nil && out != "" {
			p.kubectl("--namespace", system, "rollout", "status", "deployment/"+name, "--timeout=180s")
		}
	}
	p.eventually("the Cluster is ready", func() error {
		var c struct {
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := json.Unmarshal([]byte(h.ask(http.StatusOK, http.MethodGet, clusters+"/in-pods", "")), &c); err != nil {
			return err
		}
		for _, condition := range c.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", c.Status.Conditions)
	})
	p.eventually("the hub lists the pods that the agent runs in, from the agent's memory", func() error {
		code, text := h.try(http.MethodGet, "/clusters/in-pods/kapis/resources.kubesphere.io/v1alpha3/namespaces/"+system+"/pods?fields=.metadata.name", "")
		if code != http.StatusOK || !strings.Contains(text, `"name":"`+apiserver+"-") {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	p.eventually("kube-apiserver there knows what the administrator may", func() error {
		if code, text := h.try(http.MethodGet, "/clusters/in-pods/api/v1/nodes/real-0", ""); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	h.ask(http.StatusCreated, http.MethodPost, "/clusters/in-pods/api/v1/namespaces/default/configmaps",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"by-the-hub"}}`)
	p.kubectl("delete", "configmap", "by-the-hub")

	h.ask(http.StatusOK, http.MethodDelete, clusters+"/in-pods", "")
	d.uninstalled()
	d.left(before)
}

// addressForPods returns this machine's address as pods on the node reach it.
func (d *deployment) addressForPods() string {
	d.service = "http://" + d.kubectl("get", "node", "real-0", "--output", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`) + ":1"
	return d.ownAddress()
}

// hub is the product on this machine, with a control plane of its own, behind a balancer that ends TLS.
type hub struct {
	*plane
	url, token string
	dir        string
	cmd        *exec.Cmd
	ended      chan error
	balancer   net.Listener
	log        *output
}

// output keeps what a program prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startHub starts a hub that members reach at an address of this machine, and logs in.
func startHub(p *plane, address string) *hub {
	t := p.t
	t.Helper()
	const password = "Str0ng-enough-1"
	h := &hub{plane: p, dir: filepath.Join(t.TempDir(), "hub"), ended: make(chan error, 1), log: &output{}}
	port := freePort(t, "127.0.0.1")
	authority := filepath.Join(t.TempDir(), "ca.crt")
	var at string
	h.balancer, at = balance(t, address, "127.0.0.1:"+port, authority)
	repo, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.run("", "dev", "up", "--detach", "--dir", h.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = h.dev("down") })
	for _, file := range []string{"install/namespace.yaml", "fleet/hub/rbac.yaml"} {
		out, err := exec.Command(filepath.Join(p.bin, "kubectl"), "--kubeconfig", filepath.Join(h.dir, "kubeconfig"), "apply", "-f",
			filepath.Join(repo, "config", file)).CombinedOutput()
		if err != nil {
			t.Fatalf("install a hub: %v\n%s", err, out)
		}
	}
	h.cmd = exec.Command(filepath.Join(p.bin, "run"), "--dir", h.dir, "--bin", p.bin, "--repo", repo, "--port", port,
		"--tls-port", freePort(t, "127.0.0.1"), "--admin-password", password)
	h.cmd.Env = append(os.Environ(), "KUBECONFIG=", "KUBESPHERE_FLEET_ENABLED=true", "KUBESPHERE_FLEET_AGENT_CAFILE="+authority,
		"KUBESPHERE_MULTICLUSTER_PROXYPUBLISHADDRESS="+at, "KUBESPHERE_FLEET_AGENT_APISERVERIMAGE=kapis.dev/"+apiserver+":dev",
		"KUBESPHERE_FLEET_AGENT_CONTROLLERMANAGERIMAGE=kapis.dev/"+manager+":dev")
	h.cmd.Stdout, h.cmd.Stderr = h.log, h.log
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { h.ended <- h.cmd.Wait() }()
	h.url = "http://127.0.0.1:" + port
	p.eventually("the hub is ready", func() error {
		if !strings.Contains(h.log.String(), "READY ") {
			return fmt.Errorf("it printed\n%s", h.log)
		}
		return nil
	})
	login := url.Values{"grant_type": {"password"}, "client_id": {"kubesphere"}, "client_secret": {"kubesphere"}, "username": {"admin"}, "password": {password}}
	l := &load{base: h.url, login: login}
	if h.token, err = l.logIn(l.client(false)); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hub) dev(command string) (string, error) {
	out, err := exec.Command(filepath.Join(h.bin, "dev"), command, "--dir", h.dir).CombinedOutput()
	return string(out), err
}

// stop ends the hub and its control plane.
func (h *hub) stop() {
	h.t.Helper()
	if h.t.Failed() {
		said := h.log.String()
		h.t.Logf("the end of what the hub printed:\n%s", said[max(0, len(said)-4000):])
		for _, name := range []string{apiserver, manager} {
			out, _ := h.run("", "kubectl", "--namespace", system, "logs", "--tail=40", "--all-containers", "--prefix", "deployment/"+name)
			h.t.Logf("%s in the member:\n%s", name, out)
		}
	}
	_ = h.balancer.Close()
	_ = h.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-h.ended:
	case <-time.After(within):
		_ = h.cmd.Process.Kill()
		h.t.Error("the hub did not stop")
	}
	if out, err := h.dev("down"); err != nil {
		h.t.Errorf("stop the hub's control plane: %v: %s", err, out)
	}
}

// try asks the hub as its administrator.
func (h *hub) try(method, path, body string) (int, string) {
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+h.token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// ask is try, which has to have a code.
func (h *hub) ask(want int, method, path, body string) string {
	h.t.Helper()
	code, text := h.try(method, path, body)
	if code != want {
		h.t.Fatalf("%s %s at the hub: %d %s, want %d", method, path, code, text, want)
	}
	return text
}

// balance ends TLS at an address of this machine, with a certificate of an authority of its own, and passes on to another.
func balance(t *testing.T, address, to, authority string) (net.Listener, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub"}, IPAddresses: []net.IP{net.ParseIP(address)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", net.JoinHostPort(address, "0"), &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				next, err := net.Dial("tcp", to) //nolint:noctx // it ends with the connection
				if err != nil {
					return
				}
				defer next.Close()
				go func() {
					_, _ = io.Copy(next, c)
					_ = next.Close()
				}()
				_, _ = io.Copy(c, next)
			}()
		}
	}()
	return l, "https://" + l.Addr().String()
}
