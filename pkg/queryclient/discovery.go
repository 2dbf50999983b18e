package queryclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind that can be listed.
type Kind struct {
	Group, Version, Kind string
	// Plural is its name in paths, and Singular and ShortNames are others by which people call it.
	Plural, Singular string
	ShortNames       []string
	Namespaced       bool

	// query is its name in query.kapis.dev, empty where it is not there.
	query string
}

// Name returns the plural and the group.
func (k *Kind) Name() string {
	if k.Group == "" {
		return k.Plural
	}
	return k.Plural + "." + k.Group
}

// ObjectName returns the name of an object of the kind as kubectl prints it with -o name.
func (k *Kind) ObjectName(name string) string {
	kind := strings.ToLower(k.Kind)
	if k.Group != "" {
		kind += "." + k.Group
	}
	return kind + "/" + name
}

// discovery is the media type of aggregated discovery, which Kubernetes has since 1.30.
const discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// groupList is what is read of an APIGroupDiscoveryList (apidiscovery.k8s.io/v2).
type groupList struct {
	Kind  string
	Items []discoveredGroup
}

type discoveredGroup struct {
	Metadata struct{ Name string }
	Versions []struct {
		Version   string
		Resources []struct {
			Resource, SingularResource, Scope string
			ShortNames, Verbs                 []string
			ResponseKind                      *struct{ Group, Version, Kind string }
		}
	}
}

// discover reads which kinds there are, and reports whether query.kapis.dev is one of the groups.
func (c *Client) discover(ctx context.Context) (aggregated bool, err error) {
	queries := map[[2]string]string{} // group and plural -> name in query.kapis.dev
	for _, path := range []string{"/api", "/apis"} {
		text, err := c.get(ctx, path, nil, discovery)
		if err != nil {
			return false, fmt.Errorf("ask which kinds there are: %w", err)
		}
		var list groupList
		if err := json.Unmarshal(text, &list); err != nil {
			return false, fmt.Errorf("ask which kinds there are: %w", err)
		}
		if list.Kind != "APIGroupDiscoveryList" {
			return false, fmt.Errorf("ask which kinds there are: the server at %s is older than Kubernetes 1.30, or is none", c.base.Host)
		}
		for _, group := range list.Items {
			if group.Metadata.Name != queryGroup {
				c.all = append(c.all, kindsOf(&group)...)
				continue
			}
			for _, v := range group.Versions {
				aggregated = aggregated || v.Version == queryVersion
				for _, r := range v.Resources {
					if r.ResponseKind != nil {
						plural := strings.TrimSuffix(r.Resource, "-"+r.ResponseKind.Group)
						queries[[2]string{r.ResponseKind.Group, plural}] = r.Resource
					}
				}
			}
		}
	}
	for i := range c.all {
		k := &c.all[i]
		k.query = queries[[2]string{k.Group, k.Plural}]
	}
	return aggregated, nil
}

// kindsOf returns the kinds of a group, each in the version that the group prefers, which comes first.
func kindsOf(group *discoveredGroup) []Kind {
	var out []Kind
	seen := map[string]bool{}
	for _, v := range group.Versions {
		for _, r := range v.Resources {
			if r.ResponseKind == nil || seen[r.Resource] || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") {
				continue
			}
			seen[r.Resource] = true
			out = append(out, Kind{Group: group.Metadata.Name, Version: v.Version, Kind: r.ResponseKind.Kind, Plural: r.Resource,
				Singular: r.SingularResource, ShortNames: r.ShortNames, Namespaced: r.Scope == "Namespaced"})
		}
	}
	return out
}

// Kinds returns all kinds that can be listed, by their names as Kind takes them: plurals, with the group where a former group has the
// plural too.
func (c *Client) Kinds() []string {
	seen, out := map[string]bool{}, make([]string, 0, len(c.all))
	for i := range c.all {
		name := c.all[i].Plural
		if seen[name] {
			name = c.all[i].Name()
		}
		seen[name] = true
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Kind returns the kind that people call by a name: its plural, singular or a short name, in any case, and with the group after a dot,
// which is needed where an earlier group has the same name.
func (c *Client) Kind(name string) (*Kind, error) {
	if name == "" {
		return nil, errors.New("name a kind, such as pods")
	}
	lower := strings.ToLower(name)
	matches := func(k *Kind, word string) bool {
		return k.Plural == word || k.Singular == word || strings.ToLower(k.Kind) == word || slices.Contains(k.ShortNames, word)
	}
	plain, group, dotted := strings.Cut(lower, ".")
	for i := range c.all {
		k := &c.all[i]
		if !dotted && matches(k, lower) || dotted && matches(k, plain) && (k.Group == group || k.Version+"."+k.Group == group) {
			if c.Door == Aggregated && k.query == "" {
				return nil, fmt.Errorf("%s are not in %s yet: ks-apiserver has not heard of them", k.Name(), queryGroup)
			}
			return k, nil
		}
	}
	return nil, fmt.Errorf("the server doesn't have a resource type %q that can be listed", name)
}

// path returns the path of a query.
func (c *Client) path(q Query) string {
	root, name := "/apis/"+queryGroup+"/"+queryVersion, q.Kind.query
	if c.Door == Kapis {
		root, name = "/kapis/"+q.Kind.Group+"/"+q.Kind.Version, q.Kind.Plural
		if q.Kind.Group == "" {
			root = "/kapi/" + q.Kind.Version
		}
		if q.Fleet {
			root = "/fleet" + root
		}
	}
	if q.Namespace != "" {
		root += "/namespaces/" + q.Namespace
	}
	root += "/" + name
	if q.Name != "" {
		root += "/" + q.Name
	}
	return root
}
