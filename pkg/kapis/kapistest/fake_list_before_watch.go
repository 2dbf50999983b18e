package kapistest

import (
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// ListFirst returns client-go's fake clientset, whose clients of Secrets and ConfigMaps say, like the clientset itself, that a list
// must precede a watch.
func ListFirst(c *fake.Clientset) kubernetes.Interface { return clientset{c} }

type clientset struct{ kubernetes.Interface }

func (c clientset) CoreV1() corev1client.CoreV1Interface { return core{c.Interface.CoreV1()} }

type core struct{ corev1client.CoreV1Interface }

func (c core) Secrets(namespace string) corev1client.SecretInterface {
	return secrets{c.CoreV1Interface.Secrets(namespace)}
}

func (c core) ConfigMaps(namespace string) corev1client.ConfigMapInterface {
	return configMaps{c.CoreV1Interface.ConfigMaps(namespace)}
}

type secrets struct{ corev1client.SecretInterface }

// IsWatchListSemanticsUnSupported reports that the reflector has to begin with a list.
func (secrets) IsWatchListSemanticsUnSupported() bool { return true }

type configMaps struct {
	corev1client.ConfigMapInterface
}

// IsWatchListSemanticsUnSupported reports that the reflector has to begin with a list.
func (configMaps) IsWatchListSemanticsUnSupported() bool { return true }
