// Package retired refuses what clients of release 3.4 ask for and this server does not have, with a sentence that says so and names what
// to use, if there is something.
package retired

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// key is what a request is for. Empty fields stand for any value.
type key struct{ group, resource, name, subresource string }

// Kinds returns which kinds are served. store.Catalog is one.
type Kinds interface {
	Serves(group string) bool
	GroupOf(resource string) (schema.GroupResource, bool)
}

// Table are the retired resources, and what is said of each.
type Table struct {
	kinds     func() Kinds
	sentences map[key]string
}

// Sentences.
const (
	monitoring = "this server has no metrics of workloads: ask Prometheus. How many objects there are is at" +
		" resources.kubesphere.io/v1alpha3 .../metrics"
	logs = "this server stores no logs and no events: pod logs are at" +
		" /api/v1/namespaces/{namespace}/pods/{pod}/log, events at /api/v1/events"
	devops     = "there are no DevOps projects here"
	federation = "nothing is federated here: a workspace and its namespaces are objects of one cluster, as namespaces and workloads are"
	apps       = "the application store is at application.kubesphere.io/v2: .../apps, .../workspaces/{workspace}/repos and" +
		" .../namespaces/{namespace}/applications"
	alerting     = "this server has no alerting: ask Prometheus and Alertmanager"
	notification = "this server sends no notifications: configure Alertmanager"
	mesh         = "this server has no service mesh routes: use the API of the mesh itself"
	edge         = "there are no edge nodes here other than nodes: they are at /api/v1/nodes"
	networks     = "this server has no network routes of its own: NetworkPolicies are at /apis/networking.k8s.io/v1"
	metering     = "this server does no metering: resource quotas show what is used"
	images       = "images are not built here"
	recentAudit  = "the newest audit events are not kept: set auditing.enable and auditing.recent in the configuration"
)

// New returns the table. A group or a resource that kube-apiserver serves is not retired. hasRecentAudit says that the newest audit events
// are served.
func New(kinds func() Kinds, hasRecentAudit bool) *Table {
	t := &Table{kinds: kinds, sentences: map[key]string{}}
	for sentence, groups := range map[string][]string{
		monitoring: {"monitoring.kubesphere.io", "custom.metrics.kubesphere.io"}, metering: {"metering.kubesphere.io"},
		apps: {"openpitrix.io"}, alerting: {"alerting.kubesphere.io"}, notification: {"notification.kubesphere.io"},
		mesh: {"servicemesh.kubesphere.io"}, networks: {"network.kubesphere.io"}, devops: {"devops.kubesphere.io"},
		edge: {"kubeedge.kubesphere.io", "edgeruntime.kubesphere.io"}, federation: {"types.kubefed.io", "federation.kubesphere.io"},
		logs: {"logging.kubesphere.io", "events.kubesphere.io"},
	} {
		for _, group := range groups {
			t.sentences[key{group: group}] = sentence
		}
	}
	const tenant, iam, resources = "tenant.kubesphere.io", "iam.kubesphere.io", "resources.kubesphere.io"
	for k, sentence := range map[key]string{
		{group: tenant, resource: "logs"}: logs, {group: tenant, resource: "events"}: logs, {group: tenant, resource: "metering"}: metering,
		{group: iam, resource: "devops"}:                                devops,
		{group: resources, resource: "devopsprojects"}:                  devops,
		{group: resources, resource: "s2ibuilders"}:                     images,
		{group: resources, resource: "s2ibuildertemplates"}:             images,
		{group: resources, resource: "s2iruns"}:                         images,
		{group: resources, resource: "dashboards"}:                      monitoring,
		{group: resources, resource: "clusterdashboards"}:               monitoring,
		{group: resources, resource: "notificationconfigs"}:             notification,
		{group: resources, resource: "notificationreceivers"}:           notification,
		{group: resources, resource: "ippools"}:                         networks,
		{group: resources, resource: "helmapplications"}:                apps,
		{group: resources, resource: "helmapplicationversions"}:         apps,
		{group: resources, resource: "helmcategories"}:                  apps,
		{group: resources, resource: "helmreleases"}:                    apps,
		{group: resources, resource: "helmrepos"}:                       apps,
		{group: resources, resource: "federatednamespaces"}:             federation,
		{group: resources, resource: "federateddeployments"}:            federation,
		{group: resources, resource: "federatedstatefulsets"}:           federation,
		{group: resources, resource: "federatedservices"}:               federation,
		{group: resources, resource: "federatedingresses"}:              federation,
		{group: resources, resource: "federatedconfigmaps"}:             federation,
		{group: resources, resource: "federatedsecrets"}:                federation,
		{group: resources, resource: "federatedapplications"}:           federation,
		{group: resources, resource: "federatedpersistentvolumeclaims"}: federation,
		{group: resources, resource: "federatedworkspacerolebindings"}:  federation,
	} {
		t.sentences[k] = sentence
	}
	if !hasRecentAudit {
		t.sentences[key{group: tenant, resource: "auditing"}] = recentAudit
	}
	return t
}

// Refuse returns the 404 of a retired resource, and nil for any other request. It asks for nothing and allocates nothing but the 404.
func (t *Table) Refuse(i *request.Info) error {
	if i == nil || !i.IsResource || i.APIPrefix != "kapis" {
		return nil
	}
	if sentence, ok := t.sentences[key{group: i.APIGroup}]; ok {
		if t.kinds().Serves(i.APIGroup) {
			return nil
		}
		return refusal(i, sentence)
	}
	sentence, ok := t.sentences[key{group: i.APIGroup, resource: i.Resource}]
	switch {
	case ok:
	case i.Verb == "create":
		sentence, ok = t.sentences[key{group: i.APIGroup, resource: i.Resource, name: i.Name}]
	default:
		sentence, ok = t.sentences[key{group: i.APIGroup, resource: i.Resource, subresource: i.Subresource}]
	}
	if !ok {
		return nil
	}
	if _, served := t.kinds().GroupOf(i.Resource); served && i.APIGroup == "resources.kubesphere.io" {
		return nil
	}
	return refusal(i, sentence)
}

func refusal(i *request.Info, sentence string) error {
	return status.About(schema.GroupResource{Group: i.APIGroup, Resource: i.Resource}, i.Name,
		status.Errorf(http.StatusNotFound, "%s.%s is not served: %s", i.Resource, i.APIGroup, sentence))
}
