// Package deployment makes what is applied to a cluster so that it joins a fleet: all objects of a member's installation in one file.
package deployment

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	manifests "kapis.dev/ks-apiserver/config"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

// Options are what differs between members.
type Options struct {
	// Hub is the https address of the hub, "" for a member that the hub dials. CA is the PEM of the authorities of its certificate; "" for
	// those of the member's system.
	Hub, CA string
	// Token lets the member in, once.
	Token string
	// APIServerImage and ControllerManagerImage are what runs there.
	APIServerImage, ControllerManagerImage string
}

// sources are the files and folders that a member gets, in the order in which they are applied. Objects of the kinds of this project are
// not among them: kubectl knows no kind before its definition counts; ks-controller-manager makes them.
var sources = []string{"install/namespace.yaml", "crd/bases", "rbac", "install/admission.yaml", "install/creator.yaml", "fleet/member",
	"default/priorityclass.yaml"}

// YAML returns the file.
func YAML(o Options) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("# Apply this to the cluster that joins, with an administrator's right: kubectl apply -f FILE\n")
	if o.Token != "" {
		out.WriteString("# It has a token in it that lets one cluster into the fleet: keep it to yourself.\n")
	}
	for _, source := range sources {
		if err := add(&out, source, nil); err != nil {
			return nil, err
		}
	}
	if err := addConfiguration(&out, o); err != nil {
		return nil, err
	}
	images := strings.NewReplacer("image: ks-apiserver:latest", "image: "+o.APIServerImage,
		"image: ks-controller-manager:latest", "image: "+o.ControllerManagerImage)
	for _, source := range []string{"manager", "apiserver"} {
		if err := add(&out, source, images); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// LiteYAML returns what the administrator of a cluster applies, in which no program of ours is to run, so that the hub with a UID (of
// kube-system) may serve it as the Cluster of a name: the account with its rights, and the yes. There is no secret in it.
func LiteYAML(hub, cluster string) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("# Apply this to the cluster that joins, with an administrator's right, if the hub may act there in the names of its\n" +
		"# users, within what this file lists: kubectl apply -f FILE. Then give the hub a kubeconfig with a token of the account\n" +
		"# ks-fleet-lite.\n")
	for _, source := range []string{"install/namespace.yaml", "fleet/lite"} {
		if err := add(&out, source, nil); err != nil {
			return nil, err
		}
	}
	raw, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]string{join.ConsentHub: hub, join.ConsentCluster: cluster},
		"metadata": map[string]any{"name": join.Consent, "namespace": "kubesphere-system",
			"labels": map[string]string{"app.kubernetes.io/part-of": "ks-apiserver"}},
	})
	if err != nil {
		return nil, fmt.Errorf("write the consent to a hub: %w", err)
	}
	out.WriteString("---\n")
	out.Write(raw)
	return out.Bytes(), nil
}

// add appends the objects of a file, or of all files of a folder.
func add(out *bytes.Buffer, name string, replace *strings.Replacer) error {
	return fs.WalkDir(manifests.Files, name, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Base(file) == "kustomization.yaml" {
			return err
		}
		raw, err := manifests.Files.ReadFile(file)
		if err != nil {
			return err
		}
		text := string(raw)
		if replace != nil {
			text = replace.Replace(text)
		}
		for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
			if object, err := labelled(doc); err != nil {
				return fmt.Errorf("read config/%s: %w", file, err)
			} else if object != nil {
				out.WriteString("---\n")
				out.Write(object)
			}
		}
		return nil
	})
}

// labelled returns an object with the label of all that is this project's, nil where there is only a comment.
func labelled(doc string) ([]byte, error) {
	var o map[string]any
	if err := yaml.Unmarshal([]byte(doc), &o); err != nil || o == nil {
		return nil, err
	}
	meta, _ := o["metadata"].(map[string]any)
	if meta == nil {
		return nil, nil
	}
	labels, _ := meta["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	labels["app.kubernetes.io/part-of"] = "ks-apiserver"
	meta["labels"] = labels
	return yaml.Marshal(o)
}

const configuration = `authentication:
  issuer:
    url: https://ks-apiserver.kubesphere-system.svc
multicluster:
  clusterRole: member
`

const joining = `fleet:
  hub:
    url: %s
    tokenFile: /etc/kubesphere/join-token
`

// addConfiguration appends the Secret that both programs read.
func addConfiguration(out *bytes.Buffer, o Options) error {
	data := map[string]string{"kubesphere.yaml": configuration}
	if o.Hub != "" {
		data["kubesphere.yaml"] += fmt.Sprintf(joining, o.Hub)
		data["join-token"] = o.Token
	}
	if o.Hub != "" && o.CA != "" {
		data["hub-ca.crt"] = o.CA
		data["kubesphere.yaml"] += "    caFile: /etc/kubesphere/hub-ca.crt\n"
	}
	raw, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "stringData": data,
		"metadata": map[string]any{"name": "kubesphere-config", "namespace": "kubesphere-system",
			"labels": map[string]string{"app.kubernetes.io/part-of": "ks-apiserver"}},
	})
	if err != nil {
		return fmt.Errorf("write the configuration of a member: %w", err)
	}
	out.WriteString("---\n")
	out.Write(raw)
	return nil
}
