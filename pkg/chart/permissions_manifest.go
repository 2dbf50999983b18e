package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
)

// maxRules bounds the rules that an extension asks for.
const maxRules = 1024

// Permissions are the rights that an extension asks for to be installed.
type Permissions struct {
	// Cluster are rules for all namespaces, and Namespace those for its own.
	Cluster, Namespace []rbacv1.PolicyRule
}

// Permissions returns what permissions.yaml asks for; nothing where the chart has no such file. The rules of all documents of a kind count.
func (a *Archive) Permissions() (*Permissions, error) {
	raw, ok := a.File(filePermissions)
	if !ok {
		return &Permissions{}, nil
	}
	if len(raw) > maxDocument {
		return nil, fmt.Errorf("%s has more than %d KiB", filePermissions, maxDocument>>10)
	}
	out := &Permissions{}
	documents := utilyaml.NewYAMLReader(newLines(raw))
	for n := 1; ; n++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d can't be read", filePermissions, n)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var role struct {
			Kind  string              `json:"kind"`
			Rules []rbacv1.PolicyRule `json:"rules"`
		}
		if err := boundedyaml.Unmarshal(text, &role); err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", filePermissions, n, boundedyaml.Why(err, "it is no YAML of a role"))
		}
		switch role.Kind {
		case "ClusterRole":
			out.Cluster = append(out.Cluster, role.Rules...)
		case "Role":
			out.Namespace = append(out.Namespace, role.Rules...)
		case "":
			if len(role.Rules) == 0 {
				continue // nothing but comments
			}
			fallthrough
		default:
			return nil, fmt.Errorf("%s: document %d has the kind %.100q: ClusterRole or Role is expected", filePermissions, n, role.Kind)
		}
		if len(out.Cluster)+len(out.Namespace) > maxRules {
			return nil, fmt.Errorf("%s has more than %d rules", filePermissions, maxRules)
		}
	}
}
