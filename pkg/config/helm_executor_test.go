package config_test

import (
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestOperationsOnReleasesAreBounded(t *testing.T) { // X15
	for text, want := range map[string]config.HelmExecutor{
		"": {Timeout: config.Duration(10 * time.Minute), HistoryMax: 5},
		"helmExecutor: {timeout: 5m, historyMax: 2}": {Timeout: config.Duration(5 * time.Minute), HistoryMax: 2},
	} {
		if c, err := config.Parse([]byte(text), nil); err != nil || c.HelmExecutor != want {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
	if c, err := config.Parse(nil, []string{"KUBESPHERE_HELMEXECUTOR_HISTORYMAX=3"}); err != nil || c.HelmExecutor.HistoryMax != 3 {
		t.Errorf("by a variable: %v", err)
	}
	// The section of KubeSphere 4.1.
	c, err := config.Parse([]byte("helmExecutor: {image: i, timeout: 10m, historyMax: 2, jobTTLAfterFinished: 0s, resources: {limits: {cpu: 500m}}, affinity: {}}"), nil)
	if err != nil || len(c.Ignored) != 4 {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		"timeout: 0s": "helmExecutor.timeout: 0s", "timeout: 2h": "helmExecutor.timeout: 2h",
		"historyMax: 0": "helmExecutor.historyMax: 0", "historyMax: 101": "helmExecutor.historyMax: 101", "historymaximum: 1": "historymaximum",
	} {
		if _, err := config.Parse([]byte("helmExecutor: {"+text+"}"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
