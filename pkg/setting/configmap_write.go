package setting

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// GroupTheme is the synthetic group that may write the ConfigMaps of the theme and of the images.
const GroupTheme = "kapis:platform:theme"

// Send sends a request to kube-apiserver for a user, and returns the object in the answer.
type Send func(method, path string, body []byte) ([]byte, error)

// PutConfigMap writes a ConfigMap, and returns what was written. A fresh one must not exist yet; any other is replaced, if it has a
// resourceVersion only at that version, and created where it does not exist.
func PutConfigMap(m *corev1.ConfigMap, fresh bool, send Send) (*corev1.ConfigMap, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write ConfigMap %s: %w", m.Name, err)
	}
	all := "/api/v1/namespaces/" + m.Namespace + "/configmaps"
	var answer []byte
	if !fresh {
		answer, err = send(http.MethodPut, all+"/"+m.Name, body)
	}
	if fresh || m.ResourceVersion == "" && apierrors.IsNotFound(err) {
		answer, err = send(http.MethodPost, all, body)
	}
	if err != nil {
		return nil, err
	}
	var written corev1.ConfigMap
	if json.Unmarshal(answer, &written) != nil || written.Name != m.Name {
		return nil, errors.New("kube-apiserver's answer to the write of a ConfigMap is no ConfigMap")
	}
	return &written, nil
}
