package gateway

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
)

// container is the name of the container of the templates of KubeSphere 3, whose arguments are known.
const container = "nginx-ingress-controller"

// Variables of each container, which its arguments may name as in $(GATEWAY_PROJECT).
const (
	variableProject = "GATEWAY_PROJECT"
	variableName    = "GATEWAY_NAME"
)

// Parts are the objects that the gateway of a project consists of. All of them but the IngressClass are in the project.
type Parts struct {
	Deployment *appsv1.Deployment
	Service    *corev1.Service
	Config     *corev1.ConfigMap
	Account    *corev1.ServiceAccount
	Role       *rbacv1.Role
	Binding    *rbacv1.RoleBinding
	Class      *networkingv1.IngressClass
}

// Parts returns what the gateway of a project consists of. The Gateway has passed Open.Check. Nothing of the result is shared with the
// template or another gateway.
func (t *Template) Parts(g *v1alpha1.Gateway) Parts {
	meta := metav1.ObjectMeta{Name: g.Name, Namespace: g.Namespace, Labels: Labels(g.Namespace)}
	config := meta.DeepCopy()
	config.Name += "-nginx"
	p := Parts{
		Service: t.Service(g), Deployment: t.newDeployment(g),
		Config:  &corev1.ConfigMap{ObjectMeta: *config, Data: maps.Clone(g.Spec.Controller.Config)},
		Account: &corev1.ServiceAccount{ObjectMeta: *meta.DeepCopy()},
		Role:    &rbacv1.Role{ObjectMeta: *meta.DeepCopy(), Rules: rules(g.Name)},
		Binding: &rbacv1.RoleBinding{ObjectMeta: *meta.DeepCopy(),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: g.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: g.Name, Namespace: g.Namespace}}},
		Class: &networkingv1.IngressClass{ObjectMeta: *meta.DeepCopy(), Spec: networkingv1.IngressClassSpec{Controller: t.class}},
	}
	p.Class.Namespace = ""
	p.Service.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	p.Deployment.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
	p.Config.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	p.Account.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}
	p.Role.TypeMeta = metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}
	p.Binding.TypeMeta = metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}
	p.Class.TypeMeta = metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IngressClass"}
	return p
}

// rules are the rights of an ingress controller in its project: what it serves, and the Lease by which its replicas agree who writes.
func rules(name string) []rbacv1.PolicyRule {
	read := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "endpoints", "pods", "secrets", "services"}, Verbs: read},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses"}, Verbs: read},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses/status"}, Verbs: []string{"update"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{name},
			Verbs: []string{"get", "update"}},
	}
}

// Service returns the Service of the gateway of a project. What could point it elsewhere, or take a port twice, is not the template's.
func (t *Template) Service(g *v1alpha1.Gateway) *corev1.Service {
	from := t.service.DeepCopy()
	out := &corev1.Service{ObjectMeta: metaOf(from.ObjectMeta, g, g.Spec.Service.Annotations), Spec: from.Spec}
	s := &out.Spec
	s.ClusterIP, s.ClusterIPs, s.ExternalIPs, s.ExternalName, s.LoadBalancerIP, s.HealthCheckNodePort = "", nil, nil, "", "", 0
	for i := range s.Ports {
		s.Ports[i].NodePort = 0
	}
	s.Type, s.Selector = TypeOf(g), LegacyLabels(g.Namespace)
	return out
}

// TypeOf returns the type of the Service of a gateway.
func TypeOf(g *v1alpha1.Gateway) corev1.ServiceType {
	if g.Spec.Service.Type == corev1.ServiceTypeLoadBalancer {
		return corev1.ServiceTypeLoadBalancer
	}
	return corev1.ServiceTypeNodePort
}

func (t *Template) newDeployment(g *v1alpha1.Gateway) *appsv1.Deployment {
	from := t.deployment.DeepCopy()
	out := &appsv1.Deployment{ObjectMeta: metaOf(from.ObjectMeta, g, g.Spec.Deployment.Annotations), Spec: from.Spec}
	out.Spec.Replicas = replicas(g, from.Spec.Replicas)
	out.Spec.Selector = &metav1.LabelSelector{MatchLabels: LegacyLabels(g.Namespace)}
	pod := &out.Spec.Template
	pod.ObjectMeta = metaOf(pod.ObjectMeta, g, g.Spec.Controller.Annotations)
	pod.Name, pod.Namespace = "", ""
	pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = g.Name, ""
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.Env = append(slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == variableProject || e.Name == variableName }),
			corev1.EnvVar{Name: variableProject, Value: g.Namespace}, corev1.EnvVar{Name: variableName, Value: g.Name})
		if c.Name == container {
			withArguments(c, g)
		}
	}
	if r := g.Spec.Deployment.Resources; len(r.Limits) > 0 || len(r.Requests) > 0 {
		pod.Spec.Containers[controllerOf(pod.Spec.Containers)].Resources = *r.DeepCopy()
	}
	return out
}

// controllerOf returns the index of the ingress controller.
func controllerOf(all []corev1.Container) int {
	return max(0, slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == container }))
}

func replicas(g *v1alpha1.Gateway, template *int32) *int32 {
	for _, n := range []*int32{g.Spec.Deployment.Replicas, g.Spec.Controller.Replicas, template} {
		if n != nil {
			return new(*n)
		}
	}
	return new(int32(1))
}

// metaOf returns the metadata of an object that is made from a template: its labels and annotations, ours, and those that the project
// chose.
func metaOf(from metav1.ObjectMeta, g *v1alpha1.Gateway, chosen map[string]string) metav1.ObjectMeta {
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, from.Labels)
	maps.Copy(labels, Labels(g.Namespace))
	maps.Copy(annotations, from.Annotations)
	maps.Copy(annotations, chosen)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, templatePrefix) })
	return metav1.ObjectMeta{Name: g.Name, Namespace: g.Namespace, Labels: labels, Annotations: annotations}
}

// withArguments tells the controller which project it serves and how it is reached. What the template says about the same is dropped.
func withArguments(c *corev1.Container, g *v1alpha1.Gateway) {
	own := []string{"--configmap=$(POD_NAMESPACE)/" + g.Name + "-nginx", "--watch-namespace=" + g.Namespace, "--election-id=" + g.Name}
	if TypeOf(g) == corev1.ServiceTypeLoadBalancer {
		own = append(own, "--publish-service=$(POD_NAMESPACE)/"+g.Name)
	} else {
		own = append(own, "--report-node-internal-ip-address")
	}
	c.Command = withoutOwn(c.Command)
	c.Args = append(withoutOwn(c.Args), own...)
	if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "POD_NAMESPACE" }) {
		c.Env = append(c.Env, corev1.EnvVar{Name: "POD_NAMESPACE",
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}})
	}
}

// withoutOwn leaves out the arguments that withArguments adds, in each form that packages flag and pflag read: -flag=value,
// --flag value.
func withoutOwn(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "-") {
			name = ""
		}
		switch name {
		case "configmap", "watch-namespace", "election-id", "publish-service", "watch-namespace-selector":
			if !hasValue {
				i++ // its value is the next one
			}
		case "report-node-internal-ip-address":
		default:
			out = append(out, args[i])
		}
	}
	return out
}
