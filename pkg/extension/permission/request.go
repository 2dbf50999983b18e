package permission

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Request is what the installation of a chart asks for, and all that an approval is about.
type Request struct {
	// ClusterRules are the rules for the whole cluster, and Rules those for Namespace, which the release is in.
	ClusterRules []rbacv1.PolicyRule `json:"clusterRules,omitempty"`
	Rules        []rbacv1.PolicyRule `json:"rules,omitempty"`
	Namespace    string              `json:"namespace"`
	// HookImages are the images that run with the installer's rights before or after an operation.
	HookImages []string `json:"hookImages,omitempty"`
	// Chart and Values are digests: what a chart does with its rights is what its templates and their values say. Chart is empty where any
	// version is approved that asks for the same.
	Chart  string `json:"chart,omitempty"`
	Values string `json:"values,omitempty"`
	// Upstreams are the hosts that its backends may be at, besides Services of Namespace.
	Upstreams []string `json:"upstreams,omitempty"`
}

// namespaceGroups are the API groups whose kinds every extension may write in the namespace of its release, without asking.
var namespaceGroups = []string{"", "apps", "batch", "policy", "networking.k8s.io", "autoscaling", "metrics.k8s.io"}

// NamespaceRules returns the rules that every extension has in the namespace of its release.
func NamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: slices.Clone(namespaceGroups), Resources: []string{"*"}, Verbs: []string{"*"}}}
}

// Bound returns the rules that an operation stays within: those of the whole cluster, and those of the namespace of the release with the
// ones that every extension has there.
func (r *Request) Bound() Bound {
	return Bound{Cluster: r.ClusterRules, Namespace: r.Namespace, Rules: append(NamespaceRules(), r.Rules...)}
}

// Stamp returns the SHA-256 of a request in hexadecimal digits. Requests with one stamp ask for the same: the order of what they list does
// not count.
func (r *Request) Stamp() string {
	c := Request{
		ClusterRules: canonical(r.ClusterRules), Rules: canonical(r.Rules), Namespace: r.Namespace,
		HookImages: set(r.HookImages), Chart: r.Chart, Values: r.Values, Upstreams: set(r.Upstreams),
	}
	text, err := json.Marshal(c)
	if err != nil { // a struct of texts has a JSON text
		panic(fmt.Sprintf("encode a request: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ChartStamp returns the Stamp of what the chart itself asks for: a change of values or of hosts changes Stamp alone.
func (r *Request) ChartStamp() string {
	c := *r
	c.Values, c.Upstreams = "", nil
	return c.Stamp()
}

// canonical returns rules with their words and themselves in one order, each once.
func canonical(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	type encoded struct {
		rule rbacv1.PolicyRule
		text []byte
	}
	all := make([]encoded, 0, len(rules))
	for _, r := range rules {
		c := rbacv1.PolicyRule{Verbs: set(r.Verbs), APIGroups: set(r.APIGroups), Resources: set(r.Resources),
			ResourceNames: set(r.ResourceNames), NonResourceURLs: set(r.NonResourceURLs)}
		text, err := json.Marshal(c)
		if err != nil {
			panic(fmt.Sprintf("encode a rule: %v", err))
		}
		all = append(all, encoded{c, text})
	}
	slices.SortFunc(all, func(a, b encoded) int { return bytes.Compare(a.text, b.text) })
	all = slices.CompactFunc(all, func(a, b encoded) bool { return bytes.Equal(a.text, b.text) })
	out := make([]rbacv1.PolicyRule, 0, len(all))
	for _, e := range all {
		out = append(out, e.rule)
	}
	return out
}

func set(words []string) []string {
	out := slices.Clone(words)
	slices.Sort(out)
	return slices.Compact(out)
}

// String says for people what is asked for, the first rules of it.
func (r *Request) String() string {
	const most = 6
	var parts []string
	for _, of := range []struct {
		where string
		rules []rbacv1.PolicyRule
	}{{"in the cluster", canonical(r.ClusterRules)}, {"in " + r.Namespace, canonical(append(NamespaceRules(), r.Rules...))}} {
		for i := range of.rules {
			if i == most {
				parts = append(parts, fmt.Sprintf("%d more %s", len(of.rules)-most, of.where))
				break
			}
			one := &of.rules[i]
			parts = append(parts, fmt.Sprintf("%s %s%s of %q %s", of.where, one.Verbs, append(one.Resources, one.NonResourceURLs...), one.APIGroups,
				one.ResourceNames))
		}
	}
	if len(r.HookImages) > 0 {
		parts = append(parts, fmt.Sprintf("images of hooks %q", r.HookImages))
	}
	if len(r.Upstreams) > 0 {
		parts = append(parts, fmt.Sprintf("backends at %q", r.Upstreams))
	}
	return strings.Join(parts, "; ")
}
