package direct

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

// namespace is where the software of a member is.
const namespace = "kubesphere-system"

// Finding is a check that failed: what was checked, what was found, and what to do.
type Finding struct{ Check, Found string }

// Known is what the hub knows already: its own identity, and which Cluster each identity is.
type Known struct {
	// Hub is the UID of the hub's kube-system, and Host its name.
	Hub, Host string
	// Members are the names of the Clusters, by the UID of their kube-system.
	Members map[string]string
	// Lite says that no program of ours is to run there, so that nothing is needed of one, and SharedSecret that an older release does.
	Lite, SharedSecret bool
}

// needed are the rights that a kubeconfig has to have: to invite the member, and to reach its ks-apiserver.
var needed = []authorizationv1.ResourceAttributes{
	{Verb: "get", Resource: "namespaces", Name: metav1.NamespaceSystem},
	{Verb: "create", Resource: "configmaps", Namespace: namespace},
	{Verb: "update", Resource: "configmaps", Namespace: namespace, Name: join.Invitation},
	{Verb: "get", Resource: "services", Subresource: "proxy", Namespace: namespace, Name: service},
}

// Check asks a cluster whether it can be the Cluster of a name, and returns each check that failed, and its identity. It writes nothing.
func Check(ctx context.Context, c *rest.Config, name string, known Known) (uid string, findings []Finding) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return "", []Finding{{"kubeconfig", "the certificate or the key in it can't be read"}}
	}
	system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", []Finding{reached(err)}
	}
	uid = string(system.UID)
	switch of, taken := known.Members[uid]; {
	case uid == known.Hub:
		findings = append(findings, Finding{"identity", "the kubeconfig leads to this hub itself, which is no member: give that of" +
			" another cluster"})
	case taken && of != name:
		findings = append(findings, Finding{"identity", fmt.Sprintf("this cluster is in the fleet already, as %q: delete that Cluster first", of)})
	}
	if !known.Lite {
		findings = append(findings, rights(ctx, client, known.SharedSecret)...)
	}
	return uid, append(findings, otherHost(ctx, client, known.Host)...)
}

// reached returns why a cluster's identity could not be read.
func reached(err error) Finding {
	switch {
	case errors.Is(err, errAnswer):
		return Finding{"address", errAnswer.Error()}
	case apierrors.IsUnauthorized(err):
		return Finding{"credential", "the cluster does not know the credential in the kubeconfig, or it has expired: give a new one"}
	case apierrors.IsForbidden(err):
		return Finding{"rights", "the user in the kubeconfig may not get the namespace kube-system"}
	case errors.Is(err, context.DeadlineExceeded):
		return Finding{"address", "the server in the kubeconfig does not answer in time: is it reached from here?"}
	case strings.Contains(err.Error(), "x509:"), strings.Contains(err.Error(), "tls:"):
		return Finding{"certificate", "the server's certificate is not one of the authority in the kubeconfig, or not of its address"}
	}
	return Finding{"address", "the server in the kubeconfig is not reached from here"}
}

// rights returns the rights that are missing. A member with a shared secret is not invited.
func rights(ctx context.Context, client kubernetes.Interface, sharedSecret bool) (findings []Finding) {
	for i := range needed {
		a := needed[i]
		if sharedSecret && a.Resource == "configmaps" {
			continue
		}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}
		got, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return append(findings, Finding{"rights", "whether the user in the kubeconfig has the rights that are needed is not known"})
		}
		if !got.Status.Allowed {
			what := a.Resource
			if a.Subresource != "" {
				what += "/" + a.Subresource
			}
			findings = append(findings, Finding{"rights", "the user in the kubeconfig may not " + a.Verb + " " + what + " in " +
				strings.TrimSpace(a.Namespace+" "+a.Name)})
		}
	}
	return findings
}

// otherHost finds the cluster of another hub.
func otherHost(ctx context.Context, client kubernetes.Interface, host string) []Finding {
	ns, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil // there is none yet
	}
	if of := ns.Annotations[clusterv1alpha1.AnnotationHostCluster]; of != "" && of != host {
		return []Finding{{"host", fmt.Sprintf("the cluster is managed by the host %q: its administrator removes the annotation %s of"+
			" the namespace %s first", of, clusterv1alpha1.AnnotationHostCluster, namespace)}}
	}
	return nil
}

// Summary returns findings as one text.
func Summary(findings []Finding) string {
	var out []string
	for _, f := range findings {
		out = append(out, f.Check+": "+f.Found)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}
