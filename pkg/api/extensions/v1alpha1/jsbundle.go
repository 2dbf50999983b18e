package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// JSBundle is JavaScript that the console's pages load, with styles and files, which this server answers at paths below /dist/ without a
// login.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Link",type=string,JSONPath=`.status.link`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
type JSBundle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec JSBundleSpec `json:"spec,omitempty"`
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status JSBundleStatus `json:"status,omitempty"`
}

// JSBundleSpec says where the content comes from.
type JSBundleSpec struct {
	// Raw is the content itself, in base64.
	// +optional
	// +kubebuilder:validation:MaxLength=700000
	Raw []byte `json:"raw,omitempty"`
	// RawFrom is where it is read from.
	// +optional
	RawFrom *Source `json:"rawFrom,omitempty"`
	// Assets are what the bundle needs besides.
	// +optional
	Assets *Assets `json:"assets,omitempty"`
}

// Source is a backend, or a key of a ConfigMap or of a Secret.
type Source struct {
	Endpoint `json:",inline"`
	// +optional
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`
	// +optional
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`
}

// KeyReference names a key of an object.
type KeyReference struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// Assets are styles and files.
type Assets struct {
	// +optional
	Style *Asset `json:"style,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=256
	Files []Asset `json:"files,omitempty"`
}

// Asset is a file at a path of its own.
type Asset struct {
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Link is the path.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Link string `json:"link,omitempty"`
	// MIMEType is the media type of a file.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	MIMEType string `json:"mimeType,omitempty"`
	Source   `json:",inline"`
}

// JSBundleStatus is the state of a bundle, and its path.
type JSBundleStatus struct {
	Status `json:",inline"`
	// Link is the path at which the bundle is: /dist/<extension>/index.js.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Link string `json:"link,omitempty"`
}

// JSBundleList is a list of JSBundles.
//
// +kubebuilder:object:root=true
type JSBundleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []JSBundle `json:"items"`
}
