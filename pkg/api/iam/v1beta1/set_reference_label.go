package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// SetReference labels an object with the name of what it refers to, such as LabelRoleReference with that of a role. A name that
// can't be the value of a label, as one of more than 63 characters, is left out, and so is what was there before it:
// kube-apiserver would refuse the object, and its fields say the name anyway.
func SetReference(o metav1.Object, label, name string) {
	labels := o.GetLabels()
	if len(validation.IsValidLabelValue(name)) > 0 {
		delete(labels, label)
		return
	}
	if labels == nil {
		labels = map[string]string{}
	}
	labels[label] = name
	o.SetLabels(labels)
}
