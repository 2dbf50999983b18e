package gateway

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// annotationMesh is what pages of KubeSphere 3 send with each gateway. Its value false asks for nothing.
	annotationMesh = "servicemesh.kubesphere.io/enabled"
	// maxValue bounds a value of the configuration and of an annotation, in bytes.
	maxValue = 1024
)

var (
	// configKeys are the keys that a configuration of an ingress controller may have: other spellings could mean the same to it.
	configKeys = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	// configValues are values that stay one word or a list of words wherever a controller writes them: none ends a directive, a quoted text
	// or a line, and none is a variable.
	configValues = regexp.MustCompile(`^[A-Za-z0-9 .,:/_%+=@*-]*$`)
)

// Open is what a project may choose.
type Open struct {
	// Type, Replicas and Resources say whether the type of the Service, the number of replicas and the resources of the controller are open.
	Type, Replicas, Resources bool
	// Config are keys of the controller's configuration; the others are keys of annotations of the Service, the Deployment and the pods.
	Config, ServiceAnnotations, DeploymentAnnotations, PodAnnotations []string
}

// isCode reports whether a key of the configuration takes code or what a controller runs: nothing leaves such a key open.
func isCode(key string) bool {
	key = strings.ToLower(key)
	return strings.Contains(key, "snippet") || strings.Contains(key, "lua")
}

// Check returns why the Gateway of a namespace is refused, or nil. The error is a 400 that names what is not open.
func (o Open) Check(g *v1alpha1.Gateway) error {
	if err := CheckProject(g.Namespace); err != nil {
		return err
	}
	if g.Name != Name(g.Namespace) {
		return status.BadRequestf("the name %.253q is not %s, which the gateway of the namespace %s has", g.Name, Name(g.Namespace), g.Namespace)
	}
	s := &g.Spec
	if n := s.Controller.Scope.Namespace; n != "" && n != g.Namespace {
		return status.BadRequestf("spec.controller.scope.namespace: a gateway serves its own project, %s, and not %.63q", g.Namespace, n)
	}
	if len(s.Controller.TCP) > 0 || len(s.Controller.UDP) > 0 {
		return status.BadRequestf("spec.controller.tcp and udp are not supported: publish ports by Services of your own")
	}
	if err := o.checkType(s.Service.Type); err != nil {
		return err
	}
	if err := o.checkDeployment(s); err != nil {
		return err
	}
	if err := o.checkConfig(s.Controller.Config); err != nil {
		return err
	}
	for _, a := range []struct {
		field string
		have  map[string]string
		open  []string
	}{
		{"spec.service.annotations", s.Service.Annotations, o.ServiceAnnotations},
		{"spec.deployment.annotations", s.Deployment.Annotations, o.DeploymentAnnotations},
		{"spec.controller.annotations", s.Controller.Annotations, o.PodAnnotations},
	} {
		if err := checkAnnotations(a.field, a.have, a.open); err != nil {
			return err
		}
	}
	return nil
}

func (o Open) checkType(t corev1.ServiceType) error {
	switch t {
	case "", corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
	default:
		return status.BadRequestf("spec.service.type: %.40q is not NodePort or LoadBalancer", t)
	}
	if t != "" && !o.Type {
		return closed("spec.service.type")
	}
	return nil
}

func (o Open) checkDeployment(s *v1alpha1.GatewaySpec) error {
	for field, n := range map[string]*int32{
		"spec.deployment.replicas": s.Deployment.Replicas, "spec.controller.replicas": s.Controller.Replicas,
	} {
		switch {
		case n == nil:
		case *n < 1 || *n > 10:
			return status.BadRequestf("%s: %d is not from 1 to 10", field, *n)
		case *n != 1 && !o.Replicas:
			return closed(field)
		}
	}
	r := s.Deployment.Resources
	if !o.Resources && (len(r.Limits) > 0 || len(r.Requests) > 0) {
		return closed("spec.deployment.resources")
	}
	if len(r.Claims) > 0 {
		return status.BadRequestf("spec.deployment.resources.claims are not supported")
	}
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name := range list {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
				return status.BadRequestf("spec.deployment.resources: %.63q is not cpu or memory", name)
			}
		}
	}
	return nil
}

func (o Open) checkConfig(config map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(config)) {
		field := fmt.Sprintf("spec.controller.config[%.100q]", key)
		switch value := config[key]; {
		case isCode(key):
			return status.BadRequestf("%s is code that the gateway would run, with its rights: no template may leave it open", field)
		case !configKeys.MatchString(key):
			return status.BadRequestf("%s is not a key of lower-case letters, digits and single hyphens", field)
		case !slices.Contains(o.Config, key):
			return closed(field)
		case len(value) > maxValue || !configValues.MatchString(value):
			return status.BadRequestf("%s: the value has more than %d bytes, or other characters than letters, digits, spaces and .,:/_%%+=@*-",
				field, maxValue)
		}
	}
	return nil
}

func checkAnnotations(field string, have map[string]string, open []string) error {
	for _, key := range slices.Sorted(maps.Keys(have)) {
		value, at := have[key], fmt.Sprintf("%s[%.100q]", field, key)
		switch {
		case key == annotationMesh && value == "false":
		case len(validation.IsQualifiedName(strings.ToLower(key))) > 0:
			return status.BadRequestf("%s is not a key of an annotation", at)
		case !slices.Contains(open, key):
			return closed(at)
		case len(value) > maxValue || strings.ContainsFunc(value, unicode.IsControl):
			return status.BadRequestf("%s: the value has more than %d bytes, or control characters", at, maxValue)
		}
	}
	return nil
}

// closed is the error for what the template has to leave open first.
func closed(field string) error {
	return status.BadRequestf("%s is not open to projects here: an administrator says in the template of gateways what is (docs/gateway.md)",
		field)
}
