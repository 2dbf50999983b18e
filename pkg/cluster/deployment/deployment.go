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
)

// Options are what differs between members.
type Options struct {
	// Hub is the https address of the hub, and CA the PEM of the authorities of its certificate; "" for those of the member's system.
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
	out.WriteString("# Apply this to the cluster that joins, with an administrator's right: kubectl apply -f FILE\n" +
		"# It has a token in it that lets one cluster into the fleet: keep it to yourself.\n")
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
fleet:
  hub:
    url: %s
    tokenFile: /etc/kubesphere/join-token
`

// addConfiguration appends the Secret that both programs read.
func addConfiguration(out *bytes.Buffer, o Options) error {
	data := map[string]string{"kubesphere.yaml": fmt.Sprintf(configuration, o.Hub), "join-token": o.Token}
	if o.CA != "" {
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
