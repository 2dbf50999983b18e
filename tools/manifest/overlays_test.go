package manifest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// config is the folder of the manifests.
var config = filepath.Join("..", "..", "config")

// objects are what an overlay renders, each as Kubernetes' own type.
type objects struct {
	deployments []appsv1.Deployment
	services    []corev1.Service
	budgets     []policyv1.PodDisruptionBudget
	policies    []networkingv1.NetworkPolicy
	priorities  []schedulingv1.PriorityClass
}

// rendered returns the objects of a kustomization, as JSON by kind and name.
func rendered(t *testing.T, folder ...string) map[string][]byte {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
		filepath.Join(append([]string{config}, folder...)...))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	for _, r := range resources.Resources() {
		text, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		found[r.GetKind()+" "+r.GetName()] = text
	}
	return found
}

// add decodes an object into its list. A field that Kubernetes does not have is an error.
func add[T any](t *testing.T, name string, text []byte, to *[]T) {
	t.Helper()
	var o T
	if err := yaml.UnmarshalStrict(text, &o); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	*to = append(*to, o)
}

// overlay returns the objects of an overlay, all of which are of kinds that are known here.
func overlay(t *testing.T, folder ...string) objects {
	t.Helper()
	var all objects
	for name, text := range rendered(t, folder...) {
		var meta metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(text, &meta); err != nil {
			t.Fatal(err)
		}
		switch meta.Kind {
		case "Deployment":
			add(t, name, text, &all.deployments)
		case "Service":
			add(t, name, text, &all.services)
		case "PodDisruptionBudget":
			add(t, name, text, &all.budgets)
		case "NetworkPolicy":
			add(t, name, text, &all.policies)
		case "PriorityClass":
			add(t, name, text, &all.priorities)
		default:
			t.Errorf("%s is of a kind that nothing here checks", name)
		}
		if meta.Labels["app.kubernetes.io/part-of"] != "ks-apiserver" {
			t.Errorf("%s does not say that it is a part of this", name)
		}
	}
	return all
}

// The overlays differ in how many replicas there are and in their protection, and in nothing else.
func TestTheOverlays(t *testing.T) {
	for _, c := range []struct {
		folder            []string
		replicas          map[string]int32
		budgets, policies int
		pull              corev1.PullPolicy
	}{
		{[]string{"default"}, map[string]int32{"ks-apiserver": 2, "ks-controller-manager": 2}, 2, 0, corev1.PullIfNotPresent},
		{[]string{"overlays", "dev"}, map[string]int32{"ks-apiserver": 1, "ks-controller-manager": 1}, 0, 0, corev1.PullNever},
		{[]string{"overlays", "node"}, map[string]int32{"ks-apiserver": 2, "ks-controller-manager": 2}, 2, 0, corev1.PullNever},
		{[]string{"overlays", "prod"}, map[string]int32{"ks-apiserver": 3, "ks-controller-manager": 2}, 2, 2, corev1.PullIfNotPresent},
	} {
		t.Run(filepath.Join(c.folder...), func(t *testing.T) {
			all := overlay(t, c.folder...)
			if len(all.deployments) != 2 || len(all.services) != 2 || len(all.budgets) != c.budgets || len(all.policies) != c.policies ||
				len(all.priorities) != 1 {
				t.Errorf("%d deployments, %d services, %d budgets, %d policies, %d priority classes", len(all.deployments), len(all.services),
					len(all.budgets), len(all.policies), len(all.priorities))
			}
			for _, d := range all.deployments {
				if *d.Spec.Replicas != c.replicas[d.Name] {
					t.Errorf("%s has %d replicas", d.Name, *d.Spec.Replicas)
				}
				if got := d.Spec.Template.Spec.Containers[0].ImagePullPolicy; got != c.pull {
					t.Errorf("%s pulls %s", d.Name, got)
				}
				robust(t, d, all.priorities[0])
			}
			for _, b := range all.budgets {
				if p := b.Spec.UnhealthyPodEvictionPolicy; p == nil || *p != policyv1.AlwaysAllow {
					t.Errorf("pods of %s that are not ready keep nodes from being drained", b.Name)
				}
			}
			all.selectorsMatch(t)
		})
	}
}

// robust checks what every deployment of ours has, in every overlay.
func robust(t *testing.T, d appsv1.Deployment, priority schedulingv1.PriorityClass) {
	t.Helper()
	pod := d.Spec.Template.Spec
	if pod.PriorityClassName != priority.Name {
		t.Errorf("%s has the priority %q, and there is %q", d.Name, pod.PriorityClassName, priority.Name)
	}
	if s := d.Spec.Strategy.RollingUpdate; s == nil || s.MaxUnavailable.IntValue() != 0 {
		t.Errorf("%s loses replicas in an update", d.Name)
	}
	if a := pod.Affinity; a == nil || a.PodAntiAffinity == nil || len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		t.Errorf("%s may have all replicas on one node", d.Name)
	}
	var spread []string
	for _, s := range pod.TopologySpreadConstraints {
		spread = append(spread, s.TopologyKey)
		if selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector); err != nil || !selector.Matches(labels.Set(d.Spec.Template.Labels)) {
			t.Errorf("%s counts other pods in %s", d.Name, s.TopologyKey)
		}
	}
	if !slices.Equal(spread, []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}) {
		t.Errorf("%s is spread over %q", d.Name, spread)
	}
	if s := pod.SecurityContext; s == nil || !*s.RunAsNonRoot || *s.RunAsUser != 65532 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s runs as %+v", d.Name, s)
	}
	for _, c := range pod.Containers {
		if delay := shutdownDelay(c.Args); delay == 0 || pod.TerminationGracePeriodSeconds == nil ||
			time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second < delay+30*time.Second {
			t.Errorf("%s serves for %v after it was told to end, and is then killed before its last requests may have ended", d.Name, delay)
		}
		if c.StartupProbe == nil || c.ReadinessProbe == nil || c.LivenessProbe == nil {
			t.Errorf("%s lacks a probe", d.Name)
			continue
		}
		for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			if !slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool { return port.Name == p.HTTPGet.Port.String() }) {
				t.Errorf("%s asks the port %s, which it does not have", d.Name, p.HTTPGet.Port.String())
			}
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s asks for %+v", d.Name, c.Resources)
		}
		if s := c.SecurityContext; s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem ||
			!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s may do %+v", d.Name, s)
		}
	}
}

// shutdownDelay returns how long a program goes on after it was told to end, by its flags.
func shutdownDelay(args []string) time.Duration {
	for _, a := range args {
		if value, ok := strings.CutPrefix(a, "--shutdown-delay-duration="); ok {
			delay, _ := time.ParseDuration(value)
			return delay
		}
	}
	return 0
}

// selectorsMatch checks that services, budgets and policies are each of the deployment of their name, and name ports that it has.
func (o objects) selectorsMatch(t *testing.T) {
	t.Helper()
	for _, d := range o.deployments {
		pod := labels.Set(d.Spec.Template.Labels)
		has := func(what, name string, selector labels.Selector) bool {
			if selector.Matches(pod) != (name == d.Name) {
				t.Errorf("%s %s and the pods of %s: they match is %v", what, name, d.Name, selector.Matches(pod))
			}
			return name == d.Name
		}
		port := func(what, name string) {
			if !slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == name }) {
				t.Errorf("%s of %s names the port %s, which it does not have", what, d.Name, name)
			}
		}
		for _, s := range o.services {
			if has("Service", s.Name, labels.SelectorFromSet(s.Spec.Selector)) {
				port("Service", s.Spec.Ports[0].TargetPort.String())
			}
		}
		for _, b := range o.budgets {
			has("PodDisruptionBudget", b.Name, selector(t, b.Spec.Selector))
		}
		for _, p := range o.policies {
			if has("NetworkPolicy", p.Name, selector(t, &p.Spec.PodSelector)) {
				for _, rule := range p.Spec.Ingress {
					for _, open := range rule.Ports {
						port("NetworkPolicy", open.Port.String())
					}
				}
			}
		}
	}
}

func selector(t *testing.T, s *metav1.LabelSelector) labels.Selector {
	t.Helper()
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// The console and kube-apiserver know the services by name and port.
func TestTheServicesAreThoseOfTheConsole(t *testing.T) {
	ports := map[string]int32{}
	for _, s := range overlay(t, "default").services {
		ports[s.Namespace+"/"+s.Name] = s.Spec.Ports[0].Port
	}
	if ports["kubesphere-system/ks-apiserver"] != 80 || ports["kubesphere-system/ks-controller-manager"] != 443 {
		t.Errorf("the services are %v", ports)
	}
}

// Prometheus finds ks-apiserver by the labels and the port of its service, and ks-controller-manager by those of its pods.
func TestTheMonitorsFindTheirPods(t *testing.T) {
	var service, pod struct {
		Spec struct {
			Selector                       metav1.LabelSelector
			Endpoints, PodMetricsEndpoints []struct {
				Port          string
				Authorization struct{ Credentials corev1.SecretKeySelector }
			}
		}
	}
	monitoring, all := rendered(t, "prometheus"), overlay(t, "default")
	for name, to := range map[string]any{"ServiceMonitor ks-apiserver": &service, "PodMonitor ks-controller-manager": &pod} {
		if err := yaml.Unmarshal(monitoring[name], to); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all.services {
		if selector(t, &service.Spec.Selector).Matches(labels.Set(s.Labels)) != (s.Name == "ks-apiserver") {
			t.Errorf("the ServiceMonitor is wrong about the service %s", s.Name)
		}
		if s.Name == "ks-apiserver" && s.Spec.Ports[0].Name != service.Spec.Endpoints[0].Port {
			t.Errorf("the ServiceMonitor reads the port %q", service.Spec.Endpoints[0].Port)
		}
	}
	for _, d := range all.deployments {
		if selector(t, &pod.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) != (d.Name == "ks-controller-manager") {
			t.Errorf("the PodMonitor is wrong about the pods of %s", d.Name)
		}
		if d.Name == "ks-controller-manager" && !slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports,
			func(p corev1.ContainerPort) bool { return p.Name == pod.Spec.PodMetricsEndpoints[0].Port }) {
			t.Errorf("the PodMonitor reads the port %q", pod.Spec.PodMetricsEndpoints[0].Port)
		}
	}
	token := service.Spec.Endpoints[0].Authorization.Credentials
	if _, ok := monitoring["Secret "+token.Name]; !ok || token.Key != corev1.ServiceAccountTokenKey {
		t.Errorf("the token is %s of the Secret %s", token.Key, token.Name)
	}
}
