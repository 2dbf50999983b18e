package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Annotations of the templates. None of them is copied.
const (
	templatePrefix = "gateway.kapis.dev/"
	// annotationOpen lists what projects may choose: replicas and resources at the Deployment, type at the Service.
	annotationOpen = templatePrefix + "open"
	// annotationConfig lists keys of the controller's configuration that are open, at the Deployment.
	annotationConfig = templatePrefix + "open-config"
	// annotationAnnotations lists keys of annotations that are open, and annotationPods those of the pods, at the Deployment.
	annotationAnnotations = templatePrefix + "open-annotations"
	annotationPods        = templatePrefix + "open-pod-annotations"
	// annotationClass is the controller of the IngressClass.
	annotationClass = templatePrefix + "ingress-controller"
)

// defaultClass is the controller of the IngressClass where the template names none.
const defaultClass = "k8s.io/ingress-nginx"

// maxTemplate bounds a file of templates, in bytes.
const maxTemplate = 1 << 20

// Template is what gateways are made from: the Deployment and the Service of an ingress controller.
type Template struct {
	deployment *appsv1.Deployment
	service    *corev1.Service
	class      string
	open       Open
}

// Open returns the settings that a project may choose.
func (t *Template) Open() Open { return t.open }

// Load reads the files of a folder (*.yaml, *.yml, *.json), which have one Deployment and one Service together.
func Load(folder string) (*Template, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	t := &Template{}
	for _, e := range entries {
		// A mounted ConfigMap has its files once more in folders whose names begin with dots.
		if strings.HasPrefix(e.Name(), ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			continue
		}
		if err := t.read(filepath.Join(folder, e.Name())); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	if t.deployment == nil || t.service == nil {
		return nil, errors.New("the files *.yaml of the folder have to have one Deployment and one Service")
	}
	return t, t.check()
}

func (t *Template) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxTemplate+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxTemplate:
		return fmt.Errorf("it has more than %d bytes", maxTemplate)
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		if err := t.add(document); err != nil {
			return err
		}
	}
}

func (t *Template) add(document []byte) error {
	var m metav1.TypeMeta
	if err := yaml.Unmarshal(document, &m); err != nil {
		return err
	}
	switch {
	case m.Kind == "" && m.APIVersion == "":
		return nil // comments alone
	case m.Kind == "Deployment" && m.APIVersion == "apps/v1" && t.deployment == nil:
		t.deployment = &appsv1.Deployment{}
		return yaml.UnmarshalStrict(document, t.deployment)
	case m.Kind == "Service" && m.APIVersion == "v1" && t.service == nil:
		t.service = &corev1.Service{}
		return yaml.UnmarshalStrict(document, t.service)
	}
	return fmt.Errorf("%s %s: there has to be one Deployment of apps/v1 and one Service of v1, and nothing else", m.APIVersion, m.Kind)
}

// check reads what is open, and refuses templates that no gateway can be made from.
func (t *Template) check() error {
	if len(t.deployment.Spec.Template.Spec.Containers) == 0 {
		return errors.New("the Deployment has no container")
	}
	for _, c := range t.deployment.Spec.Template.Spec.Containers {
		if c.Image == "" {
			return fmt.Errorf("the container %q has no image", c.Name)
		}
	}
	if len(t.service.Spec.Ports) == 0 {
		return errors.New("the Service has no ports")
	}
	d, s := t.deployment.Annotations, t.service.Annotations
	t.open = Open{Config: words(d[annotationConfig]), DeploymentAnnotations: words(d[annotationAnnotations]),
		PodAnnotations: words(d[annotationPods]), ServiceAnnotations: words(s[annotationAnnotations])}
	for _, word := range words(d[annotationOpen]) {
		switch word {
		case "replicas":
			t.open.Replicas = true
		case "resources":
			t.open.Resources = true
		default:
			return fmt.Errorf("annotation %s of the Deployment: %q is not replicas or resources", annotationOpen, word)
		}
	}
	// KubeSphere 3 lets a project choose the type, and its templates say nothing about that.
	open, said := s[annotationOpen]
	t.open.Type = !said
	for _, word := range words(open) {
		if word != "type" {
			return fmt.Errorf("annotation %s of the Service: %q is not type", annotationOpen, word)
		}
		t.open.Type = true
	}
	for _, key := range t.open.Config {
		if isCode(key) || !configKeys.MatchString(key) {
			return fmt.Errorf("annotation %s: %q is code, or not a key of lower-case letters, digits and hyphens", annotationConfig, key)
		}
	}
	t.class = defaultClass
	if c := d[annotationClass]; c != "" {
		t.class = c
	}
	return nil
}

// words splits a list at commas and spaces.
func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}
