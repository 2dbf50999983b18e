package helm

import (
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Result is what an operation came to.
type Result struct {
	// Release is the newest record of the release, for Render the one that there was before; nil where there is none (after Uninstall and
	// Validate).
	Release *Release `json:"release,omitempty"`
	// Unchanged says that Apply found its own ID on the deployed revision, and did nothing.
	Unchanged bool `json:"unchanged,omitempty"`
	// RolledBack says that an upgrade failed, and that Release is a former revision, applied again. The error says why it failed.
	RolledBack bool `json:"rolledBack,omitempty"`
	// Objects are those that Render found, in the order in which they are applied, CustomResourceDefinitions of crds/ first; for Status and
	// Apply, those of the newest record.
	Objects []Object `json:"objects,omitempty"`
	// GivesDigest is that of the roles, templates, bindings and forwarding backends that Render found, for Request.GivesDigest.
	GivesDigest string `json:"givesDigest,omitempty"`
	// Recorded are the objects of former revisions that Apply may have to delete, or to apply again: for Render and Status.
	Recorded []Object `json:"recorded,omitempty"`
	// Lookups are what the templates read by the function lookup without a right to it: for Render, which takes them for what is not
	// there. They come with an error, too.
	Lookups []Lookup `json:"lookups,omitempty"`
	// Manifest is the YAML that Render made, with digests for the data of Secrets and without what the values have.
	Manifest string `json:"manifest,omitempty"`
	// Changes are what Preview found, at most 500: objects that would stay as they are are left out.
	Changes []Change `json:"changes,omitempty"`
	// Kept are the objects that Uninstall left, each with the reason, at most 100.
	Kept []string `json:"kept,omitempty"`
}

// Release is what the record of a release says.
type Release struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Revision  int    `json:"revision"`
	// Status is a status of Helm's: deployed, failed, pending-install, ...
	Status       string `json:"status"`
	Description  string `json:"description,omitempty"`
	Chart        string `json:"chart"`
	ChartVersion string `json:"chartVersion"`
	AppVersion   string `json:"appVersion,omitempty"`
	// ID is that of the operation that made the revision; empty for one of Helm's CLI.
	ID string `json:"id,omitempty"`
	// RecordDigest identifies what the newest revision applies, and its hooks.
	RecordDigest string `json:"recordDigest"`
	// BaseDigest identifies in the same way the revision that the next operation works from, and goes back to if it fails: the newest one, or
	// the last one that was deployed before it. It is empty for none. BaseDeployed says that it is deployed still.
	BaseDigest   string    `json:"baseDigest,omitempty"`
	BaseDeployed bool      `json:"baseDeployed,omitempty"`
	Updated      time.Time `json:"updated,omitzero"`
}

// Lookup is what a template reads: an object, or where Name is empty, all of a kind. Namespace is empty for objects of the cluster, and for
// all namespaces.
type Lookup struct {
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// What Apply would do with an object.
const (
	DoCreate = "create"
	DoChange = "change"
	DoRemove = "remove"
)

// Change is what Apply would do with one object.
type Change struct {
	// Do is one of DoCreate, DoChange and DoRemove.
	Do     string `json:"do"`
	Object Object `json:"object"`
	// Fields are the paths of the fields that would change, without their values.
	Fields []string `json:"fields,omitempty"`
	// Problem is why it would fail, or was not asked for.
	Problem string `json:"problem,omitempty"`
}

// Object is an object that a chart renders.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is empty where the chart names none: then it is that of the release, or the object is one of the cluster.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Hook says that the object is one of a hook, CRD that it is in crds/.
	Hook bool `json:"hook,omitempty"`
	CRD  bool `json:"crd,omitempty"`
	// Gives are the rules of a role or a role template, of Kubernetes or of this platform, Aggregates says that it takes more from others, and
	// Binds is the role that a binding gives.
	Gives      []rbacv1.PolicyRule `json:"gives,omitempty"`
	Aggregates bool                `json:"aggregates,omitempty"`
	Binds      *rbacv1.RoleRef     `json:"binds,omitempty"`
	// Forwards says that an object of an extension has the access tokens of callers sent to its backend.
	Forwards bool `json:"forwards,omitempty"`
	// Defines is the kind of a CustomResourceDefinition.
	Defines *Definition `json:"defines,omitempty"`
}

// Definition is a kind that a chart adds.
type Definition struct {
	Group      string `json:"group"`
	Kind       string `json:"kind"`
	Resource   string `json:"resource"`
	Namespaced bool   `json:"namespaced,omitempty"`
}
