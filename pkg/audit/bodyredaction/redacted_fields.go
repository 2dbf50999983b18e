package bodyredaction

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/redaction"
)

// fields says which members of an object are hidden. The zero value hides none; nil stands for it.
type fields struct {
	// all hides the value of the member itself.
	all bool
	// within are the fields of members, by their folded names.
	within map[string]*fields
	// others hides every member that open does not name.
	others bool
	open   map[string]bool
}

// allBut hides every member but these.
func allBut(open ...string) *fields {
	f := &fields{others: true, open: map[string]bool{}}
	for _, name := range open {
		f.open[fold(name)] = true
	}
	return f
}

// at returns what holds for a member.
func (f *fields) at(folded string) *fields {
	switch {
	case f == nil:
		return nil
	case f.within[folded] != nil:
		return f.within[folded]
	case f.others && !f.open[folded]:
		return &fields{all: true}
	}
	return nil
}

// and returns the fields that hide what either of two hides.
func (f *fields) and(g *fields) *fields {
	switch {
	case f == nil || g != nil && g.all:
		return g
	case g == nil || f.all:
		return f
	}
	out := &fields{within: map[string]*fields{}, others: f.others || g.others, open: map[string]bool{}}
	for _, x := range []*fields{f, g} {
		for name := range x.open {
			if f.at(name) == nil && g.at(name) == nil {
				out.open[name] = true
			}
		}
		for name := range x.within {
			out.within[name] = f.at(name).and(g.at(name))
		}
	}
	return out
}

// hide adds a path of names.
func (f *fields) hide(path []string) {
	for _, step := range path {
		if f.within == nil {
			f.within = map[string]*fields{}
		}
		name := fold(step)
		if f.within[name] == nil {
			f.within[name] = &fields{}
		}
		f = f.within[name]
	}
	f.all = true
}

// hidingKinds are the kinds of which redaction hides fields in answers, by their resource.
var hidingKinds = []schema.GroupResource{
	{Group: "iam.kubesphere.io", Resource: "users"},
	{Group: "cluster.kubesphere.io", Resource: "clusters"},
	{Group: "session.kapis.dev", Resource: "sessions"},
	{Group: "session.kapis.dev", Resource: "apikeys"},
	{Group: "session.kapis.dev", Resource: "factors"},
	{Group: "session.kapis.dev", Resource: "lockouts"},
	{Group: "kubesphere.io", Resource: "repositories"},
	{Group: "application.kubesphere.io", Resource: "repos"},
}

// byResource are the fields of kinds, by the folded name of their resource, whatever their group is: a kind of another group loses
// fields of the same name, and no alias of a kind shows more than the kind.
var byResource = func() map[string]*fields {
	all := map[string]*fields{
		"secrets":                         allBut("apiVersion", "kind", "metadata", "type", "immutable", "items"),
		"platformconfigs":                 allBut("apiVersion", "kind", "metadata", "items"),
		"identityproviders":               allBut("apiVersion", "kind", "metadata", "items", "name", "type", "disabled", "hidden", "source"),
		"clusterconnectionconfigurations": allBut("apiVersion", "kind", "metadata", "items"),
		"installplans":                    {},
	}
	for _, releases := range []string{"applications", "applicationreleases"} {
		all[releases] = &fields{}
		all[releases].hide([]string{"spec", "values"})
	}
	for _, packages := range []string{"apps", "applicationversions"} {
		all[packages] = &fields{}
		all[packages].hide([]string{"package"})
	}
	all["installplans"].hide([]string{"spec", "config"})
	all["installplans"].hide([]string{"spec", "clusterScheduling", "overrides"})
	for _, kind := range hidingKinds {
		f := &fields{}
		for _, path := range redaction.Hidden(kind) {
			f.hide(path)
		}
		all[kind.Resource] = f
	}
	return all
}()

// ofResource returns the fields of a resource.
func ofResource(resource string) *fields {
	name := fold(resource)
	if strings.HasSuffix(name, "secrets") || name == "workloadtemplates" { // those that are made into Secrets, and those that are some
		name = "secrets"
	}
	return byResource[name]
}

// ofKind returns the fields of a kind, or of the items of a list.
func ofKind(kind string) *fields {
	name := strings.TrimSuffix(fold(kind), "list")
	return ofResource(name + "s").and(ofResource(strings.TrimSuffix(name, "y") + "ies"))
}

// failure is what is left of a Status that refuses a request. Its messages may repeat what was sent.
var failure = func() *fields {
	f := allBut("kind", "apiVersion", "metadata", "status", "reason", "code")
	causes := &fields{within: map[string]*fields{"causes": allBut("reason", "field")}, others: true, open: map[string]bool{}}
	for _, name := range []string{"name", "group", "kind", "uid", "retryAfterSeconds"} {
		causes.open[fold(name)] = true
	}
	f.within = map[string]*fields{"details": causes}
	return f
}()

// platformNamespace has ConfigMaps that are the configuration of the platform, secrets included.
const platformNamespace = "kubesphere-system"

// configuration are the fields of a ConfigMap of the platform.
var configuration = allBut("apiVersion", "kind", "metadata", "immutable", "items")
