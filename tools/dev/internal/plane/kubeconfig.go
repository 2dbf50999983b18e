package plane

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"text/template"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
)

// kubeconfig is a file for one user of the control plane. It holds everything itself, so it can be copied.
var kubeconfig = template.Must(template.New("kubeconfig").Funcs(template.FuncMap{
	"base64": base64.StdEncoding.EncodeToString,
}).Parse(`apiVersion: v1
kind: Config
current-context: dev
clusters:
- name: dev
  cluster:
    server: {{.Server}}
    certificate-authority-data: {{base64 .CA}}
contexts:
- name: dev
  context:
    cluster: dev
    user: {{printf "%q" .User}}
users:
- name: {{printf "%q" .User}}
  user:
    client-certificate-data: {{base64 .Pair.Cert}}
    client-key-data: {{base64 .Pair.Key}}
`))

type kubeconfigValues struct {
	Server string
	User   string
	CA     []byte
	Pair   pki.Pair
}

func writeKubeconfig(file string, v kubeconfigValues) error {
	var b bytes.Buffer
	if err := kubeconfig.Execute(&b, v); err != nil {
		return fmt.Errorf("fill in a kubeconfig: %w", err)
	}
	return pki.WriteFile(file, b.Bytes(), 0o600)
}

// componentKubeconfigs writes the kubeconfig of the user, and those of the components.
func componentKubeconfigs(l layout, p ports) error {
	authority, err := pki.LoadAuthority(l.path("pki"), clusterCA)
	if err != nil {
		return err
	}
	for cert, file := range map[string]string{
		"admin":                   l.kubeconfig(),
		"kube-controller-manager": l.conf("kube-controller-manager.kubeconfig"),
		"kube-scheduler":          l.conf("kube-scheduler.kubeconfig"),
		"kwok":                    l.conf("kwok.kubeconfig"),
	} {
		pair, err := pki.ReadPair(l.path("pki"), cert)
		if err != nil {
			return err
		}
		v := kubeconfigValues{Server: p.server(), User: cert, CA: authority.Cert, Pair: pair}
		if err := writeKubeconfig(file, v); err != nil {
			return err
		}
	}
	return nil
}

// server is where kube-apiserver listens.
func (p ports) server() string {
	return "https://" + loopback(p.APIServer)
}
