package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/tools/port"
)

// memberNames are the Clusters that --members makes, in this order.
var memberNames = []string{"member-1", "member-2"}

// memberGrace covers the orderly stop of a member with its control plane.
const memberGrace = planeGrace + serverGrace

// membership is where a member joins: the address of the hub, and files with the authority of its certificate and with the join token.
type membership struct{ url, ca, token string }

// startMember starts the product as a member of a fleet. Nobody logs in there.
func (s *session) startMember(ctx context.Context) error {
	for _, file := range []string{"rbac.yaml", "policy.yaml"} {
		_, err := s.tool(ctx, nil, s.kubectl(), "--kubeconfig", s.clusterKubeconfig(), "apply", "-f", s.repo+"/config/fleet/member/"+file)
		if err != nil {
			return fmt.Errorf("install what a member has: %w", err)
		}
	}
	if err := s.writeConfiguration(ctx); err != nil {
		return err
	}
	return s.startProduct(ctx)
}

// startMembers starts the members, and joins them as a person would: a Cluster is created, and what agent/deployment answers is what the
// member joins by.
func (s *session) startMembers(ctx context.Context, l login) error {
	for _, name := range memberNames[:s.members] {
		if err := s.joinMember(ctx, l, name); err != nil {
			return fmt.Errorf("join %s: %w", name, err)
		}
	}
	return nil
}

func (s *session) joinMember(ctx context.Context, l login, name string) error {
	s.say("starting the cluster %s, and joining it", name)
	if err := os.MkdirAll(s.path("members", name), 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	join := s.joinByToken
	if name == memberNames[0] {
		join = s.joinByKubeconfig
	}
	if err := join(ctx, l, name); err != nil {
		return err
	}
	return s.await(ctx, "the admin's writes in the cluster to work", func(ctx context.Context) error {
		_, err := post(ctx, s.url()+"/clusters/"+name+"/api/v1/namespaces?dryRun=All", l.Access, probe)
		return err
	})
}

// clusters is where Clusters are made, and read.
const clusters = "/apis/cluster.kubesphere.io/v1alpha1/clusters"

// createCluster creates the Cluster of a member, unless an earlier run has.
func (s *session) createCluster(ctx context.Context, l login, name string, connection map[string]any) error {
	body, err := json.Marshal(map[string]any{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Cluster",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"enable": true, "provider": "make run", "connection": connection}})
	if err != nil {
		return err
	}
	_, err = post(ctx, s.url()+clusters, l.Access, string(body))
	var refusal *statusError
	if errors.As(err, &refusal) && refusal.code == http.StatusConflict {
		return nil
	}
	return err
}

// joinByToken joins a cluster that dials the hub: by the token in what agent/deployment answers.
func (s *session) joinByToken(ctx context.Context, l login, name string) error {
	if err := s.createCluster(ctx, l, name, map[string]any{"type": "proxy"}); err != nil {
		return err
	}
	token := s.path("members", name, "join-token")
	err := s.await(ctx, "the agent's deployment", func(ctx context.Context) error {
		text, err := get(ctx, s.url()+"/kapis/cluster.kubesphere.io/v1alpha1/clusters/"+name+"/agent/deployment", l.Access)
		if err != nil {
			return err
		}
		found, err := joinToken(string(text))
		if err != nil {
			return err
		}
		return writeFile(token, []byte(found), 0o600)
	})
	if err != nil {
		return err
	}
	_, err = s.launchMember(ctx, name, "--hub", s.tlsURL(), "--hub-ca", s.path("tls-ca.crt"), "--join-token", token)
	return err
}

// joinByKubeconfig joins a cluster that the hub dials.
func (s *session) joinByKubeconfig(ctx context.Context, l login, name string) error {
	address, err := s.launchMember(ctx, name)
	if err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(s.path("members", name, "kubeconfig"))
	if err != nil {
		return fmt.Errorf("read the member's kubeconfig: %w", err)
	}
	// One that is there already is sent to no other address than it was written for: this is a new one.
	kubeconfig = fmt.Appendf(kubeconfig, "# for %s\n", address)
	// Its ks-apiserver is no pod there, so that it is not reached through its kube-apiserver. The port is another one at each start.
	connection := map[string]any{"type": "direct", "kubeconfig": kubeconfig, "kubesphereAPIEndpoint": address}
	if err := s.createCluster(ctx, l, name, connection); err != nil {
		return err
	}
	return s.patchConnection(ctx, name, connection)
}

// patchConnection changes how a Cluster is reached.
func (s *session) patchConnection(ctx context.Context, name string, connection map[string]any) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"connection": connection}})
	if err != nil {
		return err
	}
	file := s.path("members", name, ".cluster.patch")
	if err := writeFile(file, patch, 0o600); err != nil {
		return err
	}
	defer func() { _ = os.Remove(file) }() // a credential is in it
	_, err = s.tool(ctx, nil, s.kubectl(), "--kubeconfig", s.clusterKubeconfig(), "patch", "clusters.cluster.kubesphere.io", name, "--type=merge",
		"--patch-file", file)
	return err
}

// launchMember starts a member, and returns the https address of its ks-apiserver once that is ready.
func (s *session) launchMember(ctx context.Context, name string, args ...string) (address string, err error) {
	plain, err := port.Reserve()
	if err != nil {
		return "", err
	}
	secure, err := port.Reserve()
	if err != nil {
		return "", err
	}
	ready := make(chan struct{})
	each := func(line string) {
		s.say("  %s: %s", name, line)
		if strings.HasPrefix(line, "READY ") {
			close(ready)
		}
	}
	args = append([]string{"--member", "--dir", s.path("members", name), "--bin", s.bin, "--repo", s.repo, "--port", strconv.Itoa(plain),
		"--tls-port", strconv.Itoa(secure), s.logLevel()}, args...)
	if err := s.launch(name, memberGrace, each, s.program("run"), args...); err != nil {
		return "", err
	}
	select {
	case <-ready:
		return "https://127.0.0.1:" + strconv.Itoa(secure), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-time.After(upTimeout):
		return "", fmt.Errorf("waited %s for it to start", upTimeout)
	}
}

// joinToken returns the join token of an agent's deployment.
func joinToken(text string) (string, error) {
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var o struct {
			Kind       string            `json:"kind"`
			StringData map[string]string `json:"stringData"`
			Data       map[string]string `json:"data"`
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			return "", fmt.Errorf("read the agent's deployment: %w", err)
		}
		if o.Kind != "Secret" {
			continue
		}
		if t := o.StringData["join-token"]; t != "" {
			return t, nil
		}
		if raw, err := base64.StdEncoding.DecodeString(o.Data["join-token"]); err == nil && len(raw) > 0 {
			return string(raw), nil
		}
	}
	return "", errors.New("the agent's deployment has no join token")
}
