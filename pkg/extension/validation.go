package extension

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
)

// GroupRoot is what the paths of groups begin with, proxyRoot those of ReverseProxies, and distRoot those of JSBundles.
const (
	GroupRoot = "/kapis"
	proxyRoot = "/proxy/"
	distRoot  = "/dist/"
)

// matcher is that of a ReverseProxy.
type matcher struct {
	path   string // without its *
	open   bool   // all below it
	method string // "*" for all
}

// meets reports whether there may be a request that both match.
func (m *matcher) meets(o *matcher) bool {
	if m.method != o.method && m.method != "*" && o.method != "*" {
		return false
	}
	return m.path == o.path || m.open && strings.HasPrefix(o.path, m.path) || o.open && strings.HasPrefix(m.path, o.path)
}

// maxEntries bounds the entries of an ExtensionEntry, in bytes.
const maxEntries = 64 << 10

// Entry is what is read of an entry of the console's menus.
type Entry struct {
	Name string `json:"name"`
	Link string `json:"link"`
}

// CheckGroup returns why no extension may have a group and version, nil if one may.
func CheckGroup(gv schema.GroupVersion, taken func(schema.GroupVersion) bool) error {
	if wrong := validation.IsDNS1123Subdomain(gv.Group); len(wrong) > 0 {
		return fmt.Errorf("spec.group: %.100q is not the name of a group: %s", gv.Group, wrong[0])
	}
	if wrong := validation.IsDNS1035Label(gv.Version); len(wrong) > 0 {
		return fmt.Errorf("spec.version: %.63q is not the name of a version: %s", gv.Version, wrong[0])
	}
	if !strings.Contains(gv.Group, ".") || strings.HasSuffix(gv.Group, ".k8s.io") {
		return fmt.Errorf("spec.group: %s is Kubernetes' own", gv.Group)
	}
	if taken != nil && taken(gv) {
		return fmt.Errorf("spec.group, spec.version: %s is served by this server itself", gv)
	}
	return nil
}

// parseMatcher reads the matcher of a ReverseProxy.
func parseMatcher(in *v1alpha1.Matcher) (m matcher, err error) {
	m.path, m.open = strings.CutSuffix(in.Path, "*")
	switch m.method = strings.ToUpper(in.Method); {
	case m.method == "" || m.method == "*":
		m.method = "*"
	case !methods[m.method]:
		return m, fmt.Errorf("spec.matcher.method: %.40q is no method that a request may have", in.Method)
	}
	switch {
	case !strings.HasPrefix(m.path, proxyRoot) || m.path == proxyRoot:
		return m, fmt.Errorf("spec.matcher.path: %.200q is not a path below %s", in.Path, proxyRoot)
	case !SoundPath(m.path) || strings.Contains(m.path, "//") || strings.ContainsAny(m.path, "*?#%"):
		return m, fmt.Errorf("spec.matcher.path: %.200q is no path, with * at most at its end", in.Path)
	}
	return m, nil
}

// CheckAPIService returns why an APIService is refused, besides what others may have already.
func CheckAPIService(o *v1alpha1.APIService, taken func(schema.GroupVersion) bool) error {
	gv := schema.GroupVersion{Group: o.Spec.Group, Version: o.Spec.Version}
	if err := CheckGroup(gv, taken); err != nil {
		return err
	}
	if _, err := backendRoot(o); err != nil {
		return err
	}
	if _, err := ParseEndpoint(&o.Spec.Endpoint); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	return nil
}

// backendRoot returns the path below which the backend of an APIService has its group.
func backendRoot(o *v1alpha1.APIService) (string, error) {
	root, ok := o.Annotations[v1alpha1.AnnotationRoot]
	if !ok {
		return GroupRoot, nil
	}
	if !SoundPath(root) || strings.HasSuffix(root, "/") || strings.Contains(root, "//") || strings.ContainsAny(root, "*?#%") {
		return "", fmt.Errorf("metadata.annotations[%s]: %.200q is no path without a slash at its end, such as /apis",
			v1alpha1.AnnotationRoot, root)
	}
	return root, nil
}

// CheckReverseProxy is CheckAPIService for a ReverseProxy.
func CheckReverseProxy(o *v1alpha1.ReverseProxy) error {
	if o.Labels[v1alpha1.LabelProxyTarget] == v1alpha1.TargetConsole {
		return nil // it is the console's
	}
	if _, err := parseMatcher(&o.Spec.Matcher); err != nil {
		return err
	}
	if _, err := Compile(&o.Spec.Directives); err != nil {
		return fmt.Errorf("spec.directives.%w", err)
	}
	if _, err := ParseEndpoint(&o.Spec.Upstream); err != nil {
		return fmt.Errorf("spec.upstream: %w", err)
	}
	return nil
}

// Takes reports whether a ReverseProxy matches what another one has: the same path and method, or where they are not of one extension, any
// request that the other one matches, too. Objects without an extension are administrators' own, and among each other as those of one.
func Takes(o, other *v1alpha1.ReverseProxy) bool {
	console := func(o *v1alpha1.ReverseProxy) bool {
		return o.Labels[v1alpha1.LabelProxyTarget] == v1alpha1.TargetConsole
	}
	a, err := parseMatcher(&o.Spec.Matcher)
	b, wrong := parseMatcher(&other.Spec.Matcher)
	if err != nil || wrong != nil || console(o) || console(other) {
		return false
	}
	return a == b || owner(&o.ObjectMeta) != owner(&other.ObjectMeta) && a.meets(&b)
}

// CheckJSBundle is CheckAPIService for a JSBundle.
func CheckJSBundle(o *v1alpha1.JSBundle) error {
	_, err := newBundle(o)
	return err
}

// checkLink returns why a bundle of an extension, "" for none, can't have a link.
func checkLink(link, extension string) error {
	rest, below := strings.CutPrefix(link, distRoot)
	first, file, deep := strings.Cut(rest, "/")
	switch {
	case !below || !deep || first == "" || file == "" || !SoundPath(link) || strings.Contains(link, "//") ||
		strings.ContainsAny(link, "*?#%") || strings.HasSuffix(link, "/"):
		return fmt.Errorf("%.200q is not the path of a file in a folder below %s", link, distRoot)
	case extension != "" && first != extension && !strings.HasPrefix(first, extension+"-"):
		return fmt.Errorf("%.200q is not below %s%s/ or %[2]s%[3]s-*/, where files of the extension are", link, distRoot, extension)
	}
	return nil
}

// Entries returns the entries of an ExtensionEntry. Its error says why it is refused.
func Entries(o *v1alpha1.ExtensionEntry) ([]Entry, error) {
	var out []Entry
	size := 0
	for i, raw := range o.Spec.Entries {
		if size += len(raw.Raw); size > maxEntries {
			return nil, fmt.Errorf("spec.entries: they have more than %d bytes", maxEntries)
		}
		var e Entry
		if err := json.Unmarshal(raw.Raw, &e); err != nil {
			return nil, fmt.Errorf("spec.entries[%d]: its name and its link are texts", i)
		}
		if e.Link != "" && !strings.HasPrefix(e.Link, "/") {
			if u, err := url.Parse(e.Link); err != nil || u.Scheme != "https" || u.Host == "" {
				return nil, fmt.Errorf("spec.entries[%d].link: %.100q is neither a path of the console nor an https URL", i, e.Link)
			}
		} else if strings.HasPrefix(e.Link, "//") || strings.HasPrefix(e.Link, `/\`) {
			return nil, fmt.Errorf("spec.entries[%d].link: %.100q names another host", i, e.Link)
		}
		out = append(out, e)
	}
	return out, nil
}
