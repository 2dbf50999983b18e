package gateway_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/gateway"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  annotations:
    gateway.kapis.dev/open: replicas, resources
    gateway.kapis.dev/open-config: proxy-body-size, use-gzip
    gateway.kapis.dev/open-pod-annotations: prometheus.io/scrape
    note: stays
spec:
  template:
    metadata: {labels: {app: other, own: "yes"}}
    spec:
      serviceAccountName: kubesphere-router-serviceaccount
      containers:
        - name: nginx-ingress-controller
          image: example.com/controller:1
          args: [/nginx-ingress-controller, --watch-namespace=kube-system, --election-id, mine, -configmap=a/b, --annotations-prefix=n.io]
        - {name: sidecar, image: "example.com/sidecar:1", args: ["$(GATEWAY_PROJECT)"]}
`

const service = `apiVersion: v1
kind: Service
metadata: {annotations: {gateway.kapis.dev/open: type, gateway.kapis.dev/open-annotations: lb.example.com/size}}
spec:
  clusterIP: 10.0.0.1
  externalIPs: [192.0.2.1]
  selector: {app: other}
  ports: [{name: http, port: 80, targetPort: http, nodePort: 30080}]
`

// load returns the template of files, by their names.
func load(t *testing.T, files map[string]string) (*gateway.Template, error) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return gateway.Load(folder)
}

func template(t *testing.T) *gateway.Template {
	t.Helper()
	out, err := load(t, map[string]string{"all.yaml": "# what gateways are made from\n---\n" + deployment + "---\n" + service, "readme.md": "no template"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func of(namespace string) *v1alpha1.Gateway {
	return &v1alpha1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gateway.Name(namespace)}}
}

func TestTemplatesThatMakeNoGatewayAreRefused(t *testing.T) { // O22
	for want, files := range map[string]map[string]string{
		"one Deployment and one Service": {"a.yaml": deployment},
		"v1 ConfigMap":                   {"a.yaml": "apiVersion: v1\nkind: ConfigMap"},
		"apps/v1 Deployment":             {"a.yaml": deployment, "b.yaml": deployment},
		"apps/v1beta1 Deployment":        {"a.yaml": strings.Replace(deployment, "apps/v1", "apps/v1beta1", 1)},
		`unknown field "replica"`:        {"a.yaml": strings.Replace(deployment, "spec:\n", "spec:\n  replica: 1\n", 1)},
		"has no image":                   {"a.yaml": strings.Replace(deployment, "image: example.com/controller:1", "stdin: true", 1), "b.yaml": service},
		"the Service has no ports":       {"a.yaml": deployment, "b.yaml": "apiVersion: v1\nkind: Service\nspec: {}"},
		`"everything" is not replicas`:   {"a.yaml": strings.Replace(deployment, "open: replicas", "open: everything", 1), "b.yaml": service},
		`"ports" is not type`:            {"a.yaml": deployment, "b.yaml": strings.Replace(service, "open: type", "open: ports", 1)},
		`"server-snippet" is code`:       {"a.yaml": strings.Replace(deployment, "use-gzip", "server-snippet", 1), "b.yaml": service},
		`"allow-snippet-annotations" is`: {"a.yaml": strings.Replace(deployment, "use-gzip", "allow-snippet-annotations", 1), "b.yaml": service},
		`"lua-shared-dicts" is code`:     {"a.yaml": strings.Replace(deployment, "use-gzip", "lua-shared-dicts", 1), "b.yaml": service},
		"it has more than":               {"a.yaml": strings.Repeat("#", 2<<20)},
	} {
		if _, err := load(t, files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := gateway.NewBackend("", "/nowhere"); err == nil || !strings.HasPrefix(err.Error(), "gateway.templates: /nowhere") {
		t.Errorf("%v does not name the key", err)
	}
}

// What no template leaves open is refused, however it is spelled.
func TestAGatewayChangesNothingThatTheTemplateLeavesClosed(t *testing.T) { // O22
	open := template(t).Open()
	config := func(key, value string) func(*v1alpha1.Gateway) {
		return func(g *v1alpha1.Gateway) { g.Spec.Controller.Config = map[string]string{key: value} }
	}
	mesh := func(is string) func(*v1alpha1.Gateway) {
		return func(g *v1alpha1.Gateway) {
			g.Spec.Service.Annotations = map[string]string{"servicemesh.kubesphere.io/enabled": is}
		}
	}
	for name, c := range map[string]struct {
		edit func(*v1alpha1.Gateway)
		want string // "" is taken
	}{
		"nothing":                 {func(*v1alpha1.Gateway) {}, ""},
		"an open key":             {config("proxy-body-size", "20m"), ""},
		"open replicas":           {func(g *v1alpha1.Gateway) { g.Spec.Deployment.Replicas = new(int32(3)) }, ""},
		"an open annotation":      {func(g *v1alpha1.Gateway) { g.Spec.Service.Annotations = map[string]string{"lb.example.com/size": "1"} }, ""},
		"no mesh":                 {mesh("false"), ""},
		"a closed key":            {config("ssl-protocols", "SSLv3"), "not open"},
		"code":                    {config("server-snippet", "return 200;"), "is code"},
		"code in capitals":        {config("Server-Snippet", "x"), "is code"},
		"code with underscores":   {config("http_SNIPPET", "x"), "is code"},
		"code with a space":       {config("server-snippet ", "x"), "is code"},
		"code of a location":      {config("location-snippets", "x"), "is code"},
		"snippets of annotations": {config("allow-snippet-annotations", "true"), "is code"},
		"lua":                     {config("lua-shared-dicts", "a:1"), "is code"},
		"Lua":                     {config("enable-LUA", "a"), "is code"},
		"code with a zero width":  {config("server-snip\u200bpet", "x"), "not a key"},
		"code by other letters":   {config("server-snıppet", "x"), "not a key"},
		"an open key in capitals": {config("Proxy-Body-Size", "1m"), "not a key"},
		"an empty key":            {config("", "1m"), "not a key"},
		"a path":                  {config("../proxy-body-size", "1m"), "not a key"},
		"a second directive":      {config("proxy-body-size", "1m; lua_code_cache off"), "the value"},
		"a second line":           {config("proxy-body-size", "1m\nuser root"), "the value"},
		"a block":                 {config("proxy-body-size", "1m} server {"), "the value"},
		"a quote":                 {config("proxy-body-size", `1m" x`), "the value"},
		"a variable":              {config("proxy-body-size", "$arg_a"), "the value"},
		"a comment":               {config("proxy-body-size", "1m#"), "the value"},
		"a long value":            {config("proxy-body-size", strings.Repeat("1", 1025)), "the value"},
		"another namespace":       {func(g *v1alpha1.Gateway) { g.Spec.Controller.Scope.Namespace = "b" }, "its own project"},
		"another name":            {func(g *v1alpha1.Gateway) { g.Name = gateway.Name("b") }, "is not kubesphere-router-a"},
		"ports of others":         {func(g *v1alpha1.Gateway) { g.Spec.Controller.TCP = map[string]string{"53": "kube-system/dns:53"} }, "not supported"},
		"another type":            {func(g *v1alpha1.Gateway) { g.Spec.Service.Type = "ExternalName" }, "NodePort or LoadBalancer"},
		"no replicas":             {func(g *v1alpha1.Gateway) { g.Spec.Deployment.Replicas = new(int32(0)) }, "from 1 to 10"},
		"many replicas":           {func(g *v1alpha1.Gateway) { g.Spec.Controller.Replicas = new(int32(11)) }, "from 1 to 10"},
		"a closed annotation":     {func(g *v1alpha1.Gateway) { g.Spec.Deployment.Annotations = map[string]string{"a": "b"} }, "not open"},
		"the mesh":                {mesh("true"), "not open"},
		"a control character": {func(g *v1alpha1.Gateway) {
			g.Spec.Controller.Annotations = map[string]string{"prometheus.io/scrape": "a\x00"}
		}, "control characters"},
		"a device": {func(g *v1alpha1.Gateway) {
			g.Spec.Deployment.Resources.Limits = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
		}, "not cpu or memory"},
		"the cluster": {func(g *v1alpha1.Gateway) {
			g.Namespace, g.Name = "kubesphere-system", gateway.Name("kubesphere-system")
		}, "no project"},
		"a long project":   {func(g *v1alpha1.Gateway) { g.Namespace = strings.Repeat("a", 46) }, "more than 45"},
		"an empty project": {func(g *v1alpha1.Gateway) { g.Name = "kubesphere-router" }, "is not kubesphere-router-a"},
	} {
		g := of("a")
		c.edit(g)
		err := open.Check(g)
		if c.want == "" && err != nil || c.want != "" && (!apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	g := of("a")
	g.Spec.Deployment.Replicas = new(int32(2))
	if err := (gateway.Backend{ClassName: "c"}).Open().Check(g); !apierrors.IsBadRequest(err) {
		t.Errorf("a class leaves replicas open: %v", err)
	}
}

func TestAGatewayServesItsProjectAlone(t *testing.T) { // O23
	p := template(t).Parts(of("a"))
	c := p.Deployment.Spec.Template.Spec.Containers[0]
	want := []string{"/nginx-ingress-controller", "--annotations-prefix=n.io", "--configmap=$(POD_NAMESPACE)/kubesphere-router-a-nginx",
		"--watch-namespace=a", "--election-id=kubesphere-router-a", "--report-node-internal-ip-address"}
	if !reflect.DeepEqual(c.Args, want) {
		t.Errorf("the arguments are %q", c.Args)
	}
	if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GATEWAY_PROJECT" && e.Value == "a" }) {
		t.Errorf("the variables are %v", c.Env)
	}
	if got := p.Deployment.Spec.Template.Spec.ServiceAccountName; got != "kubesphere-router-a" || p.Account.Name != got || p.Account.Namespace != "a" {
		t.Errorf("it runs as %s", got)
	}
	if !reflect.DeepEqual(p.Deployment.Spec.Selector.MatchLabels, p.Service.Spec.Selector) || p.Service.Spec.Selector["project"] != "a" {
		t.Errorf("the Service selects %v", p.Service.Spec.Selector)
	}
	for key, value := range p.Service.Spec.Selector {
		if p.Deployment.Spec.Template.Labels[key] != value {
			t.Errorf("the pods have the labels %v", p.Deployment.Spec.Template.Labels)
		}
	}
	s := p.Service.Spec
	if s.ClusterIP != "" || len(s.ExternalIPs) > 0 || s.Ports[0].NodePort != 0 || s.Type != corev1.ServiceTypeNodePort {
		t.Errorf("the Service is %+v", s)
	}
	if p.Role.Namespace != "a" || p.Binding.Namespace != "a" || p.Binding.RoleRef.Kind != "Role" || len(p.Binding.Subjects) != 1 ||
		p.Binding.Subjects[0].Namespace != "a" || p.Binding.Subjects[0].Name != p.Account.Name {
		t.Errorf("the rights are given by %+v", p.Binding)
	}
	for _, r := range p.Role.Rules {
		for _, word := range slices.Concat(r.APIGroups, r.Resources, r.Verbs) {
			if word == "*" || slices.Contains([]string{"escalate", "bind", "impersonate", "delete", "deletecollection"}, word) {
				t.Errorf("a rule has %s: %+v", word, r)
			}
		}
		if slices.Contains(r.Resources, "secrets") && !reflect.DeepEqual(r.Verbs, []string{"get", "list", "watch"}) || len(r.NonResourceURLs) > 0 {
			t.Errorf("a rule is %+v", r)
		}
	}
	for _, o := range []metav1.Object{p.Deployment, p.Service, p.Config, p.Account, p.Role, p.Binding} {
		if o.GetNamespace() != "a" || !strings.HasPrefix(o.GetName(), "kubesphere-router-a") || o.GetLabels()["gateway.kapis.dev/managed"] != "true" {
			t.Errorf("%s/%s has the labels %v", o.GetNamespace(), o.GetName(), o.GetLabels())
		}
	}
	if p.Deployment.Annotations["note"] != "stays" || len(p.Deployment.Annotations) != 1 {
		t.Errorf("the annotations are %v", p.Deployment.Annotations)
	}
}

// The templates are read once, and each project has copies of its own.
func TestGatewaysShareNothing(t *testing.T) { // O22
	from := template(t)
	first, second := of("a"), of("b")
	first.Spec.Service.Type = corev1.ServiceTypeLoadBalancer
	first.Spec.Deployment.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	before, err := json.Marshal(from.Parts(second))
	if err != nil {
		t.Fatal(err)
	}
	p := from.Parts(first)
	if args := p.Deployment.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--publish-service=$(POD_NAMESPACE)/kubesphere-router-a") {
		t.Errorf("the arguments are %q", args)
	}
	p.Deployment.Spec.Template.Spec.Containers[0].Args[0], p.Deployment.Spec.Template.Labels["own"], p.Service.Spec.Ports[0].Port = "x", "x", 1
	if after, err := json.Marshal(from.Parts(second)); err != nil || string(after) != string(before) {
		t.Errorf("%v: what was\n%s\nis\n%s", err, before, after)
	}
}

func TestAGatewayOfAClassTakesRoutesOfItsProjectAlone(t *testing.T) { // O23
	u := gateway.ByClass("shared", of("a"))
	raw, err := json.Marshal(u.Object["spec"])
	const want = `{"gatewayClassName":"shared","listeners":[{"allowedRoutes":{"namespaces":{"from":"Same"}},"name":"http","port":80,"protocol":"HTTP"},` +
		`{"allowedRoutes":{"namespaces":{"from":"Same"}},"name":"https","port":443,"protocol":"HTTPS","tls":{"certificateRefs":` +
		`[{"group":"","kind":"Secret","name":"kubesphere-router-a-tls"}],"mode":"Terminate"}}]}`
	if err != nil || string(raw) != want || u.GetNamespace() != "a" {
		t.Errorf("%v %s", err, raw)
	}
}

func TestOnlyTheNameOfAGatewayNamesAProject(t *testing.T) {
	for name, want := range map[string]string{
		"kubesphere-router-a": "a", "kubesphere-router-kubesphere-router-a": "kubesphere-router-a", "kubesphere-router-": "", "a": "",
	} {
		if got, ok := gateway.Project(name); got != want && ok || ok != (want != "") {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
	if err := gateway.CheckProject("kubesphere-controls-system"); apierrors.ReasonForError(err) != metav1.StatusReasonBadRequest ||
		err.(apierrors.APIStatus).Status().Code != http.StatusBadRequest {
		t.Errorf("%v", err)
	}
}
