package plane

import (
	"bytes"
	"fmt"
	"strings"
	"text/template"
	"time"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
)

// kwokTemplate gives kwok the stages that it ships, and enough workers for thousands of pods.
var kwokTemplate = template.Must(template.New("kwok").Parse(`apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 4
  nodeLeaseParallelism: 4
  podsOnNodeSyncParallelism: 4
  enableDebuggingHandlers: false
{{range .Stages}}---
{{.}}
{{end}}`))

func (i instance) kwokConfig() (string, error) {
	var b bytes.Buffer
	err := kwokTemplate.Execute(&b, map[string]any{
		"Stages": []string{
			strings.TrimSpace(nodefast.DefaultNodeInit),
			strings.TrimSpace(nodeheartbeat.DefaultNodeHeartbeatWithLease),
			strings.TrimSpace(podfast.DefaultPodReady),
			strings.TrimSpace(podfast.DefaultPodComplete),
			strings.TrimSpace(podfast.DefaultPodDelete),
		},
	})
	if err != nil {
		return "", fmt.Errorf("fill in kwok's configuration: %w", err)
	}
	return b.String(), nil
}

const (
	// containerLog is what `kubectl logs` shows of every simulated container, in the format of container runtimes. A line
	// that is appended to it appears in `kubectl logs -f`.
	containerLog         = "container.log"
	previousContainerLog = "container-previous.log"
)

// writeContainerLogs starts a new log of the simulated containers.
func (i instance) writeContainerLogs(now time.Time) error {
	for file, lines := range map[string][]string{
		containerLog:         {"starting", "hello from a simulated pod", "ready to serve"},
		previousContainerLog: {"an earlier life of this container"},
	} {
		var b strings.Builder
		for n, line := range lines {
			at := now.Add(time.Duration(n-len(lines)) * time.Millisecond).UTC()
			fmt.Fprintf(&b, "%s stdout F %s\n", at.Format(time.RFC3339Nano), line)
		}
		if err := pki.WriteFile(i.path("pods", file), []byte(b.String()), 0o600); err != nil {
			return err
		}
	}
	return nil
}
