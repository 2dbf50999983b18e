// Package refusal says to people which rights somebody lacks.
package refusal

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
)

// Bounds of a text.
const (
	rulesTold = 5
	namesTold = 8
)

// Lacks returns a text about the rights that a user does not hold at a scope.
func Lacks(u user.Info, at authz.BindingScope, missing []rbacv1.PolicyRule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.100q can't grant what the caller does not hold %s: ", u.GetName(), at)
	for i := range missing {
		if i == rulesTold {
			fmt.Fprintf(&b, ", and %d more", len(missing)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(describe(&missing[i]))
	}
	b.WriteString("; ask a user who holds it")
	return b.String()
}

// describe returns a rule for people: "get, list pods.apps (a, b)".
func describe(r *rbacv1.PolicyRule) string {
	out := Few(r.Verbs) + " "
	if len(r.NonResourceURLs) > 0 {
		return out + Few(r.NonResourceURLs)
	}
	var what []string
	for _, resource := range r.Resources {
		for _, group := range r.APIGroups {
			if len(what) > namesTold {
				break
			}
			if group != "" {
				group = "." + group
			}
			what = append(what, resource+group)
		}
	}
	out += Few(what)
	if len(r.ResourceNames) > 0 {
		out += " (" + Few(r.ResourceNames) + ")"
	}
	return out
}

// Few returns the first of some names.
func Few(list []string) string {
	short := make([]string, 0, min(len(list), namesTold+1))
	for _, s := range list[:min(len(list), namesTold)] {
		short = append(short, fmt.Sprintf("%.80s", s))
	}
	if len(list) > namesTold {
		short = append(short, "...")
	}
	return strings.Join(short, ", ")
}
