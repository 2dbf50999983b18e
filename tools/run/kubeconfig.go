package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"text/template"
)

// ksKubeconfig is for kubectl through ks-apiserver. kubectl sends no token over plain HTTP, so it names the HTTPS port.
var ksKubeconfig = template.Must(template.New("ks.kubeconfig").Parse(`apiVersion: v1
kind: Config
current-context: ks
clusters:
- name: ks
  cluster:
    server: {{.Server}}
    certificate-authority-data: {{.CA}}
contexts:
- name: ks
  context:
    cluster: ks
    user: admin
users:
- name: admin
  user:
    token: {{printf "%q" .Token}}
`))

func (s *session) writeKubeconfig(l login) error {
	ca, err := os.ReadFile(s.path("tls-ca.crt"))
	if err != nil {
		return fmt.Errorf("read the serving authority: %w", err)
	}
	var b bytes.Buffer
	err = ksKubeconfig.Execute(&b, struct{ Server, CA, Token string }{
		s.tlsURL(), base64.StdEncoding.EncodeToString(ca), l.Access,
	})
	if err != nil {
		return fmt.Errorf("fill in ks.kubeconfig: %w", err)
	}
	return writeFile(s.path("ks.kubeconfig"), b.Bytes(), 0o600)
}
