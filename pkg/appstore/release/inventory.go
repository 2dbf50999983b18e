package release

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
)

const (
	// InventoryNamespace is where inventories are: nobody but the platform writes there, so what an inventory has is what was installed.
	InventoryNamespace = "kubesphere-system"
	// MaxObjects is how many objects of a release an inventory has.
	MaxObjects = 1000

	inventoryKey = "inventory.json"
)

// Object is an object of a release.
type Object struct {
	Group    string `json:"group,omitempty"`
	Version  string `json:"version"`
	Kind     string `json:"kind"`
	Resource string `json:"resource"`
	// Namespace is empty for an object of the cluster.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String names the object for people.
func (o Object) String() string {
	kind := o.Kind
	if o.Group != "" {
		kind += "." + o.Group
	}
	if o.Namespace == "" {
		return kind + " " + o.Name
	}
	return kind + " " + o.Namespace + "/" + o.Name
}

// Inventory is what is known of what a release has installed. It is there from before the first operation on.
type Inventory struct {
	// Type is that of the version: helm, yaml or edge.
	Type string `json:"type"`
	// Namespace is that of the release. It stays the same, whatever the release's labels say later.
	Namespace string `json:"namespace"`
	// NamespaceUID is that namespace's: a later one of its name is somebody else's. It is empty where an older version wrote the inventory.
	NamespaceUID types.UID `json:"namespaceUID,omitempty"`
	// Operation is the one that has begun, and not ended yet.
	Operation string `json:"operation,omitempty"`
	// RecordDigest and BaseDigest are those of the Helm release, as the last operation left its records.
	RecordDigest string `json:"recordDigest,omitempty"`
	BaseDigest   string `json:"baseDigest,omitempty"`
	// Earlier says that an earlier installation has applied these YAML documents, and set no label of the release.
	Earlier bool `json:"earlier,omitempty"`
	// Objects are those of the release, without those of hooks, at most MaxObjects.
	Objects []Object `json:"objects,omitempty"`
}

// InventoryName returns the name of the ConfigMap that has the inventory of a release: of the one with this UID, and of no other that has
// its name.
func InventoryName(uid types.UID) string { return "application-release-" + string(uid) }

// ConfigMap returns the ConfigMap that keeps the inventory of a release.
func (i *Inventory) ConfigMap(r *v2.ApplicationRelease) (*corev1.ConfigMap, error) {
	text, err := json.Marshal(i)
	if err != nil {
		return nil, fmt.Errorf("encode the inventory of the release %s: %w", r.Name, err)
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: InventoryNamespace, Name: InventoryName(r.UID),
		Labels: map[string]string{v2.LabelRelease: r.Name}}, Data: map[string]string{inventoryKey: string(text)}}, nil
}

// InventoryOf returns the inventory in a ConfigMap.
func InventoryOf(m *corev1.ConfigMap) (*Inventory, error) {
	out := &Inventory{}
	if err := json.Unmarshal([]byte(m.Data[inventoryKey]), out); err != nil {
		return nil, fmt.Errorf("read the inventory in the ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	return out, nil
}
