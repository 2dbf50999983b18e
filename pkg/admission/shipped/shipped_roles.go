// Package shipped has the rules of the roles and role templates of every installation (config/roles). Each installation applies them
// again, and in a member of a fleet each start of ks-controller-manager: what was taken from one of them comes back.
package shipped

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	manifests "kapis.dev/ks-apiserver/config"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Role is what a role has when it is applied.
type Role struct {
	Rules []rbacv1.PolicyRule
	// Templates are those that it takes rules from, nil for none.
	Templates *iamv1beta1.AggregationRoleTemplates
}

// installation is all of it. Nobody may change it.
type installation struct {
	roles     map[authz.RoleRef]Role
	templates map[string]*iamv1beta1.RoleTemplate
}

var read = sync.OnceValue(func() installation {
	all, err := readFiles(manifests.Files)
	if err != nil {
		panic(err) // the files are in the program, and a test reads them
	}
	return all
})

// RoleOf returns a role as it is applied; found is false for one that no installation has.
func RoleOf(role authz.RoleRef) (r Role, found bool) {
	r, found = read().roles[role]
	return r, found
}

// Templates returns the role templates by their names, to be read only.
func Templates() map[string]*iamv1beta1.RoleTemplate { return read().templates }

func readFiles(files fs.FS) (installation, error) {
	all := installation{map[authz.RoleRef]Role{}, map[string]*iamv1beta1.RoleTemplate{}}
	names, err := fs.Glob(files, "roles/*.yaml")
	if err != nil {
		return all, fmt.Errorf("look for config/roles: %w", err)
	}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return all, fmt.Errorf("read config/%s: %w", name, err)
		}
		for doc := range strings.SplitSeq("\n"+string(raw), "\n---\n") {
			if err := all.add([]byte(doc)); err != nil {
				return all, fmt.Errorf("read config/%s: %w", name, err)
			}
		}
	}
	return all, nil
}

func (all installation) add(doc []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &kind); err != nil {
		return err
	}
	scope := request.Global
	switch kind.Kind {
	case iamv1beta1.KindClusterRole:
		scope = request.Cluster
	case iamv1beta1.KindGlobalRole:
	case "RoleTemplate":
		t := &iamv1beta1.RoleTemplate{}
		if err := yaml.UnmarshalStrict(doc, t); err != nil {
			return err
		}
		all.templates[t.Name] = t
		return nil
	default: // bindings and categories; what a BuiltinRole makes is not applied
		return nil
	}
	r := &iamv1beta1.GlobalRole{} // the kinds of roles have the same fields
	if err := yaml.UnmarshalStrict(doc, r); err != nil {
		return err
	}
	role := Role{Rules: r.Rules}
	if aggregation.Wanted(aggregation.Role{Meta: r, Templates: r.AggregationRoleTemplates, Rules: &r.Rules}) {
		role.Templates = r.AggregationRoleTemplates
	}
	all.roles[authz.RoleRef{Scope: scope, Name: r.Name}] = role
	return nil
}
