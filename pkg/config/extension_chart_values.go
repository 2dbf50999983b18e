package config

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Extension is the section extension: values that the chart of every extension gets, below `global`.
type Extension struct {
	// ImageRegistry is the host, and a path if there is one, that images come from; "" for the ones that charts name.
	ImageRegistry string `json:"imageRegistry"`
	// NodeSelector is a mapping of labels that says where pods of extensions run; everywhere. Files of existing installations have "" for
	// that.
	NodeSelector any `json:"nodeSelector"`
	// Ingress is what charts build the addresses of their own pages from.
	Ingress ExtensionIngress `json:"ingress"`
}

// ExtensionIngress is the section extension.ingress. The ports are numbers, or texts.
type ExtensionIngress struct {
	IngressClassName string `json:"ingressClassName"`
	DomainSuffix     string `json:"domainSuffix"`
	HTTPPort         any    `json:"httpPort"`
	HTTPSPort        any    `json:"httpsPort"`
}

// Values returns the ingress as charts read it; nil where nothing is set.
func (i *ExtensionIngress) Values() map[string]any {
	http, _ := portOf(i.HTTPPort)
	https, _ := portOf(i.HTTPSPort)
	if i.IngressClassName == "" && i.DomainSuffix == "" && http == 0 && https == 0 {
		return nil
	}
	return map[string]any{"ingressClassName": i.IngressClassName, "domainSuffix": i.DomainSuffix, "httpPort": http, "httpsPort": https}
}

// portOf reads a port, which is a number or the text of one; 0 for none.
func portOf(v any) (int, bool) {
	if v == nil || v == "" {
		return 0, true
	}
	n, err := strconv.Atoi(fmt.Sprint(v))
	return n, err == nil && n >= 0 && n <= 65535
}

// Nodes returns NodeSelector; nil for everywhere.
func (e *Extension) Nodes() map[string]string {
	labels, _ := e.NodeSelector.(map[string]any)
	var out map[string]string
	for k, v := range labels {
		text, ok := v.(string)
		if !ok {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = text
	}
	return out
}

func (e *Extension) check(fault func(format string, args ...any)) {
	if strings.ContainsAny(e.ImageRegistry, " \t\n@") || strings.Contains(e.ImageRegistry, "://") {
		fault("extension.imageRegistry: %.100q is not the name of a registry, such as registry.example.com/mirror", e.ImageRegistry)
	}
	labels, isMap := e.NodeSelector.(map[string]any)
	if !isMap && e.NodeSelector != nil && e.NodeSelector != "" {
		fault("extension.nodeSelector: a mapping of labels is expected")
	}
	for k, v := range labels {
		if text, ok := v.(string); !ok || len(validation.IsQualifiedName(k)) > 0 || len(validation.IsValidLabelValue(text)) > 0 {
			fault("extension.nodeSelector: %.100q is not a label with a text as its value", k)
		}
	}
	if d := e.Ingress.DomainSuffix; d != "" && len(validation.IsDNS1123Subdomain(d)) > 0 {
		fault("extension.ingress.domainSuffix: %.100q is not a domain", d)
	}
	for name, port := range map[string]any{"httpPort": e.Ingress.HTTPPort, "httpsPort": e.Ingress.HTTPSPort} {
		if _, ok := portOf(port); !ok {
			fault("extension.ingress.%s: %.30q is not a port", name, fmt.Sprint(port))
		}
	}
}
