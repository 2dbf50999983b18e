package extensionrelease

import (
	"fmt"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// maxObjects is how many objects of a release are noted.
const maxObjects = 1000

// Note is what is known of a release, from before its first operation on. It is kept where nobody but the platform writes: whoever may
// write Secrets in the namespace of an extension may write the records of its release, and an installer has the rights that were approved.
type Note struct {
	helm.Noted
	// Namespace is that of the release.
	Namespace string `json:"namespace"`
	// Objects are those of the release, without those of hooks, at most maxObjects: also those that an operation may make that has begun.
	Objects []Object `json:"objects,omitempty"`
}

// Object is an object of a release.
type Object struct {
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func objectOf(o *permission.Object) Object {
	return Object{Group: o.Group, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}
}

// String names the object for people.
func (o Object) String() string {
	kind := o.Resource
	if o.Group != "" {
		kind += "." + o.Group
	}
	if o.Namespace == "" {
		return kind + " " + o.Name
	}
	return kind + " " + o.Namespace + "/" + o.Name
}

// Believes reports whether the records of a release are those that its own operations have left; nil for none. Other records say what
// somebody else has written: with what they have outside of the release's namespace nothing is done, which is an error, unless it was noted
// as the release's. of are the objects of the records, without those of hooks.
func (n *Note) Believes(records *helm.Release, of []permission.Object) (bool, error) {
	if records == nil || n.Knows(records) || n.HasBegun(records) {
		return true, nil
	}
	known := map[Object]bool{}
	for _, o := range n.Objects {
		known[o] = true
	}
	for i := range of {
		if o := objectOf(&of[i]); o.Namespace != n.Namespace && !known[o] {
			whose := "was changed by somebody else"
			if n.RecordDigest == "" { // as of an agent that an earlier installation has brought
				whose = "is of none that this plan has installed"
			}
			return false, &helm.Error{Reason: helm.ReasonInvalid, Message: helm.Clip(fmt.Sprintf("the record of the Helm release %q %s, and "+
				"has %s, which is outside of its namespace: remove that from the release, or uninstall the release, with Helm, and then set a new "+
				"value of the annotation %s", records.Name, whose, o, v1alpha1.AnnotationRetry), 1000)}
		}
	}
	return false, nil
}

// Own returns what was noted as the release's, by what it is removed.
func (n *Note) Own() []permission.Object {
	out := make([]permission.Object, 0, len(n.Objects))
	for _, o := range n.Objects {
		out = append(out, permission.Object{Group: o.Group, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name})
	}
	return out
}

// Begin notes what an operation may make, before it does.
func (n *Note) Begin(objects []permission.Object) {
	known := map[Object]bool{}
	for _, o := range n.Objects {
		known[o] = true
	}
	for i := range objects {
		if o := objectOf(&objects[i]); !known[o] && len(n.Objects) < maxObjects {
			known[o] = true
			n.Objects = append(n.Objects, o)
		}
	}
}

// End notes the records that an operation has left that was done on believed ones, or on others. whole says that the release is what
// objects are, and that no operation is left half done.
func (n *Note) End(records *helm.Release, believed, whole bool, objects []permission.Object) {
	n.Noted = helm.After(records, believed)
	if whole {
		n.Objects = nil
		n.Begin(objects)
	}
}
