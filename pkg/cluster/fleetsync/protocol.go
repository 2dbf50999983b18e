package fleetsync

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/cluster"
)

// What the hub asks a member over their link.
const (
	// PathDigest takes a Digest, and answers with a Difference.
	PathDigest = "/fleet/digest"
	// PathObjects takes Changes, and answers with an Outcome.
	PathObjects = "/fleet/objects"
	// PathBound answers with a Bound.
	PathBound = "/fleet/bound"
	// PathBoundNames answers with a cluster.BoundNames.
	PathBoundNames = "/fleet/bound-names"
	// PathAbout answers with a cluster.About.
	PathAbout = "/fleet/about"
	// PathHealth answers with a Health.
	PathHealth = "/fleet/health"

	// LabelFleet is carried by what a hub keeps in a member: the UID of the hub's kube-system.
	LabelFleet = clusterv1alpha1.LabelFleet
	// annotationHash is the hash of what the hub sent.
	annotationHash = "kapis.dev/fleet-hash"
)

// kinds are what is kept in members, in the order in which they are written there; what is no longer to be there is deleted in the
// opposite order.
var kinds = []schema.GroupVersionResource{
	tenantv1beta1.SchemeGroupVersion.WithResource("workspaces"),
	iamv1beta1.SchemeGroupVersion.WithResource("users"),
	iamv1beta1.SchemeGroupVersion.WithResource("globalroles"),
	iamv1beta1.SchemeGroupVersion.WithResource("workspaceroles"),
	iamv1beta1.SchemeGroupVersion.WithResource("globalrolebindings"),
	iamv1beta1.SchemeGroupVersion.WithResource("workspacerolebindings"),
}

// Ref names an object: its kind, by the plural, and its name. None of the kinds is in namespaces.
type Ref struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Digest is all that a hub wants to be in a member: by kind, the hash of each object.
type Digest struct {
	// Hub is the UID of the hub's kube-system.
	Hub     string                       `json:"hub"`
	Objects map[string]map[string]string `json:"objects"`
	// Gone is what the hub saw the end of: it is deleted, however much it is.
	Gone []Change `json:"gone,omitempty"`
}

// Difference is what a member lacks of a Digest. What it had and should not have is deleted already, but for what is pending.
type Difference struct {
	Want    []Ref             `json:"want,omitempty"`
	Pending []cluster.Pending `json:"pending,omitempty"`
}

// Change is one object as it is to be; without an Object it is to be deleted.
type Change struct {
	Ref
	Hash   string          `json:"hash,omitempty"`
	Object json.RawMessage `json:"object,omitempty"`
	// Propagation is what becomes of the namespaces of a workspace that is deleted, as its template said; "" leaves them.
	Propagation string `json:"propagation,omitempty"`

	// gives is the role that a binding gives: see Changes.Roles.
	gives givenRole
}

// Changes are to be applied in this order.
type Changes struct {
	Hub     string   `json:"hub"`
	Changes []Change `json:"changes"`
	// Roles are the hub's roles that bindings in Changes give, but for those that every installation has: any replica of the member can
	// compare them with the member's own. A hub of an earlier version sends none.
	Roles Roles `json:"roles,omitempty"`
}

// Roles are roles as the hub sends them, by their kind and name.
type Roles map[string]map[string]json.RawMessage

// Outcome is what could not be applied.
type Outcome struct {
	Pending []cluster.Pending `json:"pending,omitempty"`
}

// Bound are the names of the users whom bindings of the member alone name, sorted, and a version of the list.
type Bound struct {
	Version string   `json:"version"`
	Users   []string `json:"users"`
}
