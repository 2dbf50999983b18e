package e2e

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/redaction"
)

// form is a way to ask for the same: parameters, and headers.
type form struct {
	query   url.Values
	headers []string
}

func asked(query string, headers ...string) form {
	q, err := url.ParseQuery(query)
	if err != nil {
		panic(err)
	}
	return form{q, headers}
}

// contentQuestion is one request, and what the list of what may be shown calls its path.
type contentQuestion struct {
	method, path, route string
	headers             []string
	body                string
}

func (f form) of(method, path, route string) contentQuestion {
	if len(f.query) > 0 {
		path += "?" + f.query.Encode()
	}
	return contentQuestion{method, path, route, f.headers, ""}
}

const streamEnds = "timeoutSeconds=1"

// media are the types of answers that kube-apiserver knows, and ways to write them that a filter may overlook.
var media = []string{
	"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor", "*/*", "text/html", "Application/VND.Kubernetes.Protobuf",
	"application/vnd.kubernetes.protobuf,application/json", "application/json;q=0.1, application/yaml;q=0.9", "application/json;pretty=1",
}

// transformed are the same in another shape.
func transformed() []string {
	var out []string
	for _, base := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor"} {
		for _, as := range []string{"Table;v=v1;g=meta.k8s.io", "PartialObjectMetadata;v=v1;g=meta.k8s.io", "PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
			out = append(out, base+";as="+as)
		}
	}
	return append(out, "application/json;as=Table;v=v1beta1;g=meta.k8s.io", "application/json;g=meta.k8s.io;v=v1;as=Table,application/json")
}

// streamed are those of watches.
var streamed = []string{
	"application/json;stream=watch", "application/yaml;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch", "application/cbor-seq",
	"application/cbor;stream=watch",
	"application/json;as=Table;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
	"text/event-stream",
}

// passedForms are the ways to ask what kube-apiserver answers.
func passedForms(list bool) []form {
	out := []form{asked(""), asked("pretty=true"), asked("resourceVersion=0"), asked("", "Accept-Encoding: gzip")}
	for _, m := range media {
		out = append(out, asked("", "Accept: "+m))
	}
	for _, m := range transformed() {
		out = append(out, asked("includeObject=Object", "Accept: "+m))
	}
	for _, include := range []string{"None", "Metadata"} {
		out = append(out, asked("includeObject="+include, "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"))
	}
	if !list {
		return out
	}
	out = append(out, asked("limit=500"), asked("watch=1&"+streamEnds),
		asked("watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&"+streamEnds))
	for _, m := range streamed {
		out = append(out, asked("includeObject=Object&watch=true&"+streamEnds, "Accept: "+m))
	}
	return out
}

// ownForms are the ways to ask what is answered out of the caches. They name every field of the kind that some are not shown.
func ownForms(paths [][]string, list bool) []form {
	var fields []string
	for _, p := range append(paths, []string{"metadata", "annotations['kubectl.kubernetes.io/last-applied-configuration']"}) {
		fields = append(fields, "."+strings.Join(p, "."))
	}
	all := url.QueryEscape(strings.Join(fields, ","))
	out := []form{
		asked(""), asked("managedFields=true&limit=100"), asked("managedFields=true&limit=100&fields=" + all), asked("fields=" + all),
		asked("fields=.metadata,.spec,.data,.refresh,.upstream"),
		asked("", "Accept-Encoding: gzip"),
	}
	for _, m := range append(slices.Clone(media), "application/json;as=Table;v=v1;g=meta.k8s.io", "text/event-stream",
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io") {
		out = append(out, asked("", "Accept: "+m))
	}
	if !list {
		return out
	}
	out = append(out, asked("q=content"), asked("q=content&managedFields=true&limit=50"), asked("cel=true&managedFields=true&limit=50"),
		asked("cel="+url.QueryEscape("object.metadata.name != ''")), asked("facets=.metadata.name,.spec,.data,.metadata.annotations&limit=1"))
	for _, f := range fields {
		f = url.QueryEscape(f)
		out = append(out, asked("facets="+f+"&limit=1"), asked("sortBy="+f+",name"), asked("sortBy="+f+"&managedFields=true&limit=10"),
			asked("fieldSelector="+f+"%21%3Dx"), asked("view=keys&limit=100&sortBy="+f))
	}
	for _, stream := range []string{"watch=true", "watch=true&fields=" + all, "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		"view=live&limit=100", "view=live&limit=100&fields=" + all, "view=live&limit=10&managedFields=true", "watch=true&managedFields=true"} {
		out = append(out, asked(stream+"&"+streamEnds), asked(stream+"&"+streamEnds, "Accept: text/event-stream"))
	}
	return out
}

// within are where objects of a kind may be asked for: the parts of a path before the kind, and what the list calls them.
func (w *contentWorld) within(k kind, own bool) map[string]string {
	out := map[string]string{"": ""}
	if own {
		for name, tenant := range map[string]tenant{"A": w.a, "B": w.b} {
			out["/workspaces/"+tenant.workspace] = "/workspaces/" + name
			if k.namespaced {
				out["/workspaces/"+tenant.workspace+"/namespaces/"+tenant.namespace] = "/workspaces/" + name + "/namespaces/" + name
			}
		}
		out["/workspaces/"+w.a.workspace+"/namespaces/"+w.b.namespace] = "/workspaces/A/namespaces/B"
	}
	if k.namespaced {
		for name, namespace := range map[string]string{"A": w.a.namespace, "B": w.b.namespace, "system": systemNamespace,
			"extension": "extension-" + w.one, "store": storeNamespace} {
			out["/namespaces/"+namespace] = "/namespaces/" + name
		}
	}
	if !k.namespaced {
		delete(out, "/workspaces/"+w.a.workspace+"/namespaces/"+w.b.namespace)
	}
	return out
}

// secretsOf returns the paths of the fields of a kind that some are not shown; nil for a kind that has none.
func secretsOf(k kind) [][]string {
	if paths := redaction.Hidden(k.GroupResource()); paths != nil {
		return paths
	}
	switch k.GroupResource().String() {
	case "secrets", "configmaps":
		return [][]string{{"data"}, {"data", "key"}, {"binaryData"}, {"stringData"}}
	case "applicationreleases.application.kubesphere.io":
		return [][]string{{"spec", "values"}}
	case "installplans.kubesphere.io":
		return [][]string{{"spec", "config"}, {"spec", "clusterScheduling"}}
	}
	return nil
}

// contentQuestions are all that everybody is asked to ask.
func (w *contentWorld) contentQuestions() []contentQuestion {
	var out []contentQuestion
	for _, k := range w.kinds {
		if !k.listed {
			continue
		}
		if paths := secretsOf(k); paths != nil {
			out = append(out, w.askWhole(k, paths)...)
			continue
		}
		// Of the other kinds nobody knows of a secret: each is asked for in the few ways that show most.
		for _, root := range []string{"/apis", "/kapis"} {
			for path, route := range w.within(k, root == "/kapis") {
				for _, f := range []form{asked(""), asked("managedFields=true&limit=100"), asked("includeObject=Object",
					"Accept: application/json;as=Table;v=v1;g=meta.k8s.io")} {
					out = append(out, f.of(http.MethodGet, k.path(root, path), k.path(root, route)))
				}
			}
		}
	}
	for path, methods := range w.routes {
		if path != "/oauth/logout" && !strings.Contains(path, "/{resources}") && slices.Contains(methods, http.MethodGet) {
			out = append(out, w.askRoute(path)...)
		}
	}
	return out
}

// askWhole asks for a kind with secrets in all ways, at all doors.
func (w *contentWorld) askWhole(k kind, paths [][]string) []contentQuestion {
	name := w.one
	switch k.Resource {
	case "sessions", "apikeys":
		name = w.names[k.Resource]
	case "applicationreleases":
		name = w.sold["b"]["application"]
	}
	var out []contentQuestion
	ask := func(path, route string, list []form, one []form) {
		for _, f := range list {
			out = append(out, f.of(http.MethodGet, path, route))
		}
		for _, f := range one {
			out = append(out, f.of(http.MethodGet, path+"/"+name, route+"/{name}"))
		}
		out = append(out, asked("").of(http.MethodHead, path, route), asked("").of(http.MethodGet, path+"/"+name+"/status", route+"/{name}/status"))
	}
	for path, route := range w.within(k, false) {
		out = append(out, dryRuns(k, k.path("/apis", path), k.path("/apis", route), name, paths)...)
	}
	for path, route := range w.within(k, true) {
		out = append(out, dryRuns(k, k.path("/kapis", path), k.path("/kapis", route), name, paths)...)
	}
	watched := func(path string) string { return strings.Replace(path, "/"+k.Version, "/"+k.Version+"/watch", 1) }
	for path, route := range w.within(k, false) {
		path, route := k.path("/apis", path), k.path("/apis", route)
		ask(path, route, passedForms(true), passedForms(false))
		ask("/clusters/host"+path, route, []form{asked("")}, []form{asked("", "Accept: application/yaml")})
		out = append(out, asked(streamEnds).of(http.MethodGet, watched(path), route), asked(streamEnds).of(http.MethodGet, watched(path)+"/"+name, route))
	}
	for path, route := range w.within(k, true) {
		here, called := k.path("/kapis", path), k.path("/kapis", route)
		ask(here, called, ownForms(paths, true), ownForms(paths, false))
		ask("/clusters/host"+here, called, []form{asked("managedFields=true&limit=100")}, []form{asked("managedFields=true")})
		out = append(out, asked(streamEnds).of(http.MethodGet, watched(here), called))
		if !strings.HasPrefix(path, "/workspaces") {
			here, called = kapis+path+"/"+k.Resource, kapis+route+"/"+k.Resource
			ask(here, called, ownForms(paths, true), ownForms(paths, false))
		}
	}
	return out
}

// dryRuns are writes without effect: their answers have the object, too. Some would copy what is hidden to where it is not.
func dryRuns(k kind, path, route, name string, paths [][]string) []contentQuestion {
	one, called := path+"/"+name+"?dryRun=All", route+"/{name}"
	hidden := "/" + strings.Join(paths[0], "/")
	var out []contentQuestion
	ask := func(method, path, route, contentType, body, accept string) {
		out = append(out, contentQuestion{method, path, route, []string{"Content-Type: " + contentType, "Accept: " + accept}, body})
	}
	// Where a deletion has a body, kube-apiserver reads no query.
	const dryRun = `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`
	gv := k.GroupVersion().String()
	bare := `{"apiVersion":"` + gv + `","metadata":{"name":"` + name + `","labels":{"dry-run":"true"}}}`
	for _, accept := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor",
		"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"} {
		ask(http.MethodPatch, one, called, "application/merge-patch+json", `{"metadata":{"labels":{"dry-run":"true"}}}`, accept)
		ask(http.MethodDelete, one, called, "application/json", dryRun, accept)
	}
	const plain = "application/json"
	for _, op := range []string{"copy", "move"} {
		for _, to := range []string{"/metadata/annotations/copied", "/metadata/labels", "/spec/email", "/spec/description", "/spec/url"} {
			ask(http.MethodPatch, one, called, "application/json-patch+json", `[{"op":"`+op+`","from":"`+hidden+`","path":"`+to+`"}]`, plain)
		}
		ask(http.MethodPatch, one, called, "application/json-patch+json",
			`[{"op":"`+op+`","from":"/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration","path":"/metadata/annotations/copied"}]`, plain)
		ask(http.MethodPatch, one, called, "application/json-patch+json", `[{"op":"`+op+`","from":"/spec","path":"/metadata/annotations/copied"}]`, plain)
		ask(http.MethodPatch, one, called, "application/json-patch+json", `[{"op":"`+op+`","from":"","path":"/metadata/annotations"}]`, plain)
	}
	ask(http.MethodPatch, one, called, "application/json-patch+json", `[{"op":"test","path":"`+hidden+`","value":"x"}]`, plain)
	ask(http.MethodPatch, one+"&fieldManager=content&force=true", called, "application/apply-patch+yaml", bare, plain)
	ask(http.MethodPatch, one, called, "application/merge-patch+json", `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{"}}}`,
		plain)
	ask(http.MethodPut, one, called, plain, bare, plain)
	ask(http.MethodPost, path+"?dryRun=All", route, plain, bare, plain)
	ask(http.MethodDelete, path+"?dryRun=All&fieldSelector=metadata.name%3D"+name, route, plain, dryRun, plain)
	return out
}

// askRoute asks a route of its own for what is a's, b's and the platform's.
func (w *contentWorld) askRoute(path string) []contentQuestion {
	ids := func(x tenant) map[string]string {
		return map[string]string{"namespace": x.namespace, "workspace": x.workspace, "pod": x.pod, "secret": w.one, "version": "v1", "cluster": "host",
			"resourcequota": x.workspace,
			"user":          x.user, "username": x.user, "member": x.user, "workspacemember": x.user}
	}
	mine, others, planted := ids(w.a), ids(w.b), ids(w.a)
	maps.Copy(mine, w.sold["a"])
	maps.Copy(others, w.sold["b"])
	maps.Copy(planted, w.sold["b"]) // which is not of the workspace in the path
	for _, who := range []map[string]string{mine, others, planted} {
		who["extensionversion"] = w.one + "-1.0.0"
		if !strings.Contains(path, "/versions/{version}") {
			who["version"] = "v1"
		}
	}
	planted["user"], planted["username"], planted["namespace"], planted["cluster"] = w.one, w.one, systemNamespace, w.one
	forms := []form{asked(""), asked("managedFields=true&limit=100"), asked("fields=.metadata,.spec,.data&facets=.spec,.data"), asked("includeObject=Object",
		"Accept: application/json;as=Table;v=v1;g=meta.k8s.io"),
		asked("", "Accept: application/yaml"), asked("watch=true&"+streamEnds, "Accept: text/event-stream"), asked("view=live&limit=100&" + streamEnds)}
	if strings.Contains(path, "/application.kubesphere.io/") {
		forms = append(forms, asked("cel=true&limit=100"), asked("q=content"), asked("facets=.spec.values,.metadata.annotations&limit=1"),
			asked("sortBy=.spec.values"), asked("fields=.spec.values,.status"), asked("conditions=status%3Dpassed%7Cfailed%7Cdraft&limit=100"))
	}
	var out []contentQuestion
	for _, who := range []map[string]string{mine, others, planted} {
		full := parameter.ReplaceAllStringFunc(path, func(p string) string {
			if id, ok := who[strings.Trim(p, "{}")]; ok {
				return id
			}
			return w.one
		})
		for _, f := range forms {
			out = append(out, f.of(http.MethodGet, full, path))
		}
		if full == path {
			break
		}
	}
	return out
}
