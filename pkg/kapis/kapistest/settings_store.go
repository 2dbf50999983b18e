package kapistest

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/pkg/setting"
)

// Settings returns the settings in a namespace once they are read. They are followed until the test ends.
func Settings(t *testing.T, client kubernetes.Interface, namespace string) *setting.Store {
	t.Helper()
	s := setting.New(client, namespace)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		return s.Synced() == nil, nil // the failure below says why not
	})
	if err != nil {
		t.Fatal("the settings are not read:", s.Synced())
	}
	return s
}
