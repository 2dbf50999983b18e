package kubectlshell

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"

	"kapis.dev/ks-apiserver/pkg/terminal"
)

// Session is one terminal in a pod: a folder with its kubeconfig and token, which is the HOME of its shell.
type Session struct{ dir string }

// NewSession returns a session with a name of its own, which no other login can tell.
func NewSession() Session { return Session{root + "/" + strings.ToLower(rand.Text())} }

// The scripts get the folder as an argument, so that nothing of it is read as a command. What is secret comes by the standard input only.
const (
	// writeScript writes the first line to the kubeconfig, and the rest to the token. Each is renamed: kubectl never reads a part.
	writeScript = `umask 077 && mkdir -p "$1" && cd "$1" && IFS= read -r config && printf '%s\n' "$config" >config.new && cat >token.new &&` +
		` mv config.new config && mv token.new token`
	// shellScript goes to the folder, which is the only one that can be written to.
	shellScript = `cd "$1" && export HOME="$1" TMPDIR="$1" KUBECONFIG="$1/config" && shift && exec "$@"`
)

// WriteQuery returns the query of the exec (PodExecOptions of core/v1) that writes what Input returns.
func (s Session) WriteQuery() url.Values {
	return query([]string{"sh", "-c", writeScript, "sh", s.dir}, "stdin", "stdout", "stderr")
}

// ShellQuery returns the query of the exec that is the shell, which has the name as for terminal.Shell.
func (s Session) ShellQuery(name string) url.Values {
	return query(append([]string{"sh", "-c", shellScript, "sh", s.dir}, terminal.Shell(name)...), "stdin", "stdout", "tty")
}

// RemoveQuery returns the query of the exec that removes the folder.
func (s Session) RemoveQuery() url.Values {
	return query([]string{"rm", "-rf", "--", s.dir}, "stdout", "stderr")
}

func query(command []string, streams ...string) url.Values {
	q := url.Values{"command": command, "container": {Container}}
	for _, on := range streams {
		q.Set(on, strconv.FormatBool(true))
	}
	return q
}

// Target is the server that kubectl calls.
type Target struct {
	// Server is its https URL, and Authority the PEM certificates of its CAs; nil for those of the image.
	Server    string
	Authority []byte
}

// Input returns what WriteQuery's command reads: a kubeconfig, which names the token's file beside it, and the token.
func Input(t Target, user, token string) (string, error) {
	const name = "ks-apiserver"
	config, err := json.Marshal(clientcmdapi.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: name,
		Clusters: []clientcmdapi.NamedCluster{{Name: name, Cluster: clientcmdapi.Cluster{
			Server: t.Server, CertificateAuthorityData: t.Authority}}},
		AuthInfos: []clientcmdapi.NamedAuthInfo{{Name: user, AuthInfo: clientcmdapi.AuthInfo{TokenFile: "token"}}},
		Contexts:  []clientcmdapi.NamedContext{{Name: name, Context: clientcmdapi.Context{Cluster: name, AuthInfo: user}}},
	})
	if err != nil {
		return "", fmt.Errorf("write the kubeconfig of a kubectl shell: %w", err)
	}
	return string(config) + "\n" + token, nil
}
