package permission

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// maxUpstreams bounds the hosts that a plan names.
const maxUpstreams = 32

// UpstreamsOf returns the hosts that a plan wants backends to be at, besides Services of the extension's namespace: in order, each once.
func UpstreamsOf(plan *v1alpha1.InstallPlan) ([]string, error) {
	hosts := upstreams(plan.Annotations[v1alpha1.AnnotationUpstreams])
	if len(hosts) > maxUpstreams {
		return nil, fmt.Errorf("metadata.annotations[%s]: %d hosts, of at most %d", v1alpha1.AnnotationUpstreams, len(hosts), maxUpstreams)
	}
	for _, host := range hosts {
		if _, err := netip.ParseAddr(host); err != nil && len(validation.IsDNS1123Subdomain(host)) > 0 {
			return nil, fmt.Errorf("metadata.annotations[%s]: %.100q is no host: names or addresses are expected, without scheme, port and"+
				" path", v1alpha1.AnnotationUpstreams, host)
		}
	}
	return hosts, nil
}

func upstreams(list string) []string {
	return set(strings.FieldsFunc(strings.ToLower(list), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }))
}

// CheckUpstream returns why the backend of an extension that a plan has installed in a namespace may not be at a host, nil if it may: it is
// a Service of that namespace, or a host that was approved. What DNS makes of other forms of a name depends on where it is asked, so that
// only the one with ".svc" is a Service.
func CheckUpstream(plan *v1alpha1.InstallPlan, namespace, host string) error {
	host = strings.ToLower(host)
	parts := strings.Split(strings.TrimSuffix(host, ".cluster.local"), ".")
	if namespace != "" && len(parts) == 3 && parts[0] != "" && parts[1] == namespace && parts[2] == "svc" {
		return nil
	}
	if slices.Contains(upstreams(plan.Annotations[v1alpha1.AnnotationApprovedUpstreams]), host) {
		return nil
	}
	return fmt.Errorf("the extension %s leads to Services of its namespace %s, as <name>.%[2]s.svc, and to hosts that its InstallPlan names"+
		" in the annotation %s with an approval: %.100q is none of them", plan.Name, namespace, v1alpha1.AnnotationUpstreams, host)
}
