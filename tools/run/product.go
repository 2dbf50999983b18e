package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/tools/port"
)

const (
	// serverGrace lets open requests finish (30 s), managerGrace a reconcile.
	serverGrace  = 40 * time.Second
	managerGrace = 20 * time.Second

	// upTimeout bounds the wait for the product: long enough for a slow machine under load.
	upTimeout = 5 * time.Minute
	pollEvery = 100 * time.Millisecond
)

var errTooLong = errors.New("it takes too long")

// startProduct starts both programs; ks-controller-manager first, since it creates the user admin.
func (s *session) startProduct(ctx context.Context) error {
	s.say("starting ks-controller-manager and ks-apiserver")
	hooks, err := s.webhooks()
	if err != nil {
		return err
	}
	if !s.member { // a member has no users of its own
		hooks = append(hooks, "--admin-password-file", s.path("admin-password"))
	}
	err = s.launch("ks-controller-manager", managerGrace, nil, s.program("ks-controller-manager"), append(hooks,
		"--config", s.path("kubesphere.yaml"), "--kubeconfig", s.identity("ks-controller-manager"),
		// An existing cluster may have a leader already. In our own, a pause of kube-apiserver would end the only one.
		"--leader-elect="+strconv.FormatBool(s.kubeconfig != ""),
		"--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0", s.logLevel())...)
	if err != nil {
		return err
	}
	err = s.launch("ks-apiserver", serverGrace, nil, s.program("ks-apiserver"),
		"--config", s.path("kubesphere.yaml"), "--kubeconfig", s.identity("ks-apiserver"),
		"--bind-address", "127.0.0.1",
		"--insecure-port", strconv.Itoa(s.port), "--secure-port", strconv.Itoa(s.tlsPort),
		"--tls-cert-file", s.path("tls.crt"), "--tls-private-key", s.path("tls.key"), s.logLevel())
	if err != nil {
		return err
	}
	return s.await(ctx, "ks-apiserver to be ready", func(ctx context.Context) error {
		_, err := get(ctx, s.url()+"/readyz", "")
		return err
	})
}

// logLevel returns the argument that sets how much both programs log.
func (s *session) logLevel() string { return "-v=" + strconv.Itoa(s.verbosity) }

// webhooks returns the arguments about webhooks: a port on loopback, where the control plane of this machine reaches it. An existing
// cluster may not reach it, and then nothing of ours could be written there.
func (s *session) webhooks() ([]string, error) {
	if s.kubeconfig != "" {
		s.say("no admission webhooks, since the cluster may not reach this machine: ks-apiserver still judges what goes through it")
		return []string{"--webhook-port=0"}, nil
	}
	own, err := port.Reserve()
	if err != nil {
		return nil, fmt.Errorf("find a port for webhooks: %w", err)
	}
	return []string{"--webhook-port=" + strconv.Itoa(own), "--webhook-url=https://127.0.0.1:" + strconv.Itoa(own)}, nil
}

// awaitLogin waits until the admin can log in, query and write.
func (s *session) awaitLogin(ctx context.Context, password string) (login, error) {
	// Checked first: failed logins before the user exists would count against it.
	err := s.await(ctx, "the user admin to be active", func(ctx context.Context) error {
		state, err := s.tool(ctx, nil, s.kubectl(), "--kubeconfig", s.clusterKubeconfig(),
			"get", "users.iam.kubesphere.io", "admin", "-o", "jsonpath={.status.state}")
		if err == nil && strings.TrimSpace(state) != "Active" {
			err = fmt.Errorf("its state is %q", state)
		}
		return err
	})
	if err != nil {
		return login{}, err
	}
	l, err := s.logIn(ctx, password)
	if err != nil {
		return login{}, err
	}
	err = s.await(ctx, "a query to work", func(ctx context.Context) error {
		_, err := get(ctx, s.url()+"/kapis/resources.kubesphere.io/v1alpha3/namespaces?limit=1", l.Access)
		return err
	})
	if err != nil {
		return login{}, err
	}
	return l, s.awaitWrite(ctx, l)
}

// probe is an object that nothing is stored of: it is sent with dryRun. It belongs to no namespace, since the admin, who is the manager of
// system-workspace too, may write in that workspace's namespaces before anywhere else.
const probe = `{"apiVersion":"v1","kind":"Namespace","metadata":{"generateName":"make-run-"}}`

// awaitWrite waits until kube-apiserver lets the admin write. It decides by native bindings, which ks-controller-manager makes of the
// admin's soon after the start: until then each write is 403. An admin whose role was taken away may make no namespace, which is said.
func (s *session) awaitWrite(ctx context.Context, l login) error {
	err := s.await(ctx, "the admin's writes to work", func(ctx context.Context) error {
		_, err := post(ctx, s.url()+"/api/v1/namespaces?dryRun=All", l.Access, probe)
		return err
	})
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusForbidden && ctx.Err() == nil {
		s.say("the admin may make no namespace: %v", err)
		return nil
	}
	return err
}

// logIn logs in as the admin. If another password was requested than the admin has, it is set.
func (s *session) logIn(ctx context.Context, password string) (login, error) {
	l, err := passwordLogin(ctx, s.url(), s.consoleSecret, password)
	if err == nil || !refused(err) {
		return l, err
	}
	if s.adminPassword == "" {
		return login{}, fmt.Errorf("the cluster has an admin with another password than %s says (%w): set it with ADMIN_PASSWORD=",
			s.path("admin-password"), err)
	}
	s.say("setting the password of admin to the one given")
	patch := s.path(".admin-password.patch")
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"password": password}})
	if err != nil {
		return login{}, fmt.Errorf("encode the password: %w", err)
	}
	if err := writeFile(patch, data, 0o600); err != nil {
		return login{}, err
	}
	defer func() { _ = os.Remove(patch) }() // a password is in it
	_, err = s.tool(ctx, nil, s.kubectl(), "--kubeconfig", s.clusterKubeconfig(),
		"patch", "users.iam.kubesphere.io", "admin", "--type=merge", "--patch-file", patch)
	if err != nil {
		return login{}, fmt.Errorf("set the password of admin: %w", err)
	}
	err = s.await(ctx, "the new password to count", func(ctx context.Context) error {
		l, err = passwordLogin(ctx, s.url(), s.consoleSecret, password)
		return err
	})
	return l, err
}

// await calls ask until it returns nil, up to a limit.
func (s *session) await(ctx context.Context, what string, ask func(context.Context) error) error {
	// The cause distinguishes the end of ctx from the end of the wait.
	bounded, cancel := context.WithTimeoutCause(ctx, upTimeout, errTooLong)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := ask(bounded)
		if err == nil {
			return nil
		}
		select {
		case <-bounded.Done():
			if cause := context.Cause(bounded); !errors.Is(cause, errTooLong) {
				return cause
			}
			return fmt.Errorf("waited %s for %s; last answer: %w", upTimeout, what, err)
		case <-tick.C:
		}
	}
}

// httpClient uses no proxy: all addresses are loopback.
func httpClient() *http.Client {
	return &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{}}
}
