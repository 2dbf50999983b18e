package main

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"
)

// devConsoleSecret is the secret of the console's client at the development control plane, which listens on loopback only. An installation
// has a random one.
const devConsoleSecret = "kubesphere"

// consoleSecretAt prints what the Secret of the console's client has in it.
var consoleSecretAt = []string{"-n", "kubesphere-system", "get", "secret", "oauthclient-kubesphere", "-o",
	`go-template={{index .data "configuration.yaml" | base64decode}}`}

// readConsoleSecret reads the secret of the console's client, which an existing installation may have chosen.
func (s *session) readConsoleSecret(ctx context.Context) error {
	text, err := s.tool(ctx, []string{"KUBECONFIG=" + s.clusterKubeconfig()}, s.kubectl(), consoleSecretAt...)
	if err != nil {
		return fmt.Errorf("read the console's OAuth client: %w", err)
	}
	var client struct {
		Secret string `json:"secret"`
	}
	if err := yaml.Unmarshal([]byte(text), &client); err != nil {
		return errors.New("read the console's OAuth client: Secret oauthclient-kubesphere is not YAML")
	}
	s.consoleSecret = client.Secret
	return nil
}

// shownConsoleSecret returns how a shell gets the secret: only the one of the development control plane is printed.
func (s *session) shownConsoleSecret() string {
	if s.consoleSecret == devConsoleSecret {
		return devConsoleSecret
	}
	return `$(kubectl -n kubesphere-system get secret oauthclient-kubesphere -o go-template='{{index .data "configuration.yaml" | base64decode}}' ` +
		`| sed -n 's/^secret: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p')`
}
